/* Old names of lgamma. newlib's functions of these names compute the gamma function itself. */
#include <math.h>

double gamma(double x) {
  return lgamma(x);
}
float gammaf(float x) {
  return lgammaf(x);
}
double gamma_r(double x, int* sign) {
  return lgamma_r(x, sign);
}
float gammaf_r(float x, int* sign) {
  return lgammaf_r(x, sign);
}
