// UndefinedBehaviorSanitizer. Code that gcc has compiled with -fsanitize=undefined calls these
// functions on undefined behaviour. Each report has the kind of error and the source line, and also
// the values if they help. After the report the kernel panics (core/sanitizer.h).
//
// The compiler emits a structure for each checked operation and passes values as words: an integer
// of up to 64 bits directly, a wider one by its address. The layouts are those of compiler-rt and
// libsanitizer (ubsan/ubsan_handlers.h, ubsan_value.h).
#ifdef CONFIG_UBSAN

#include <cstddef>
#include <cstdint>

#include "core/sanitizer.h"
#include "lib/format.h"

namespace {

struct Location {
  const char* file;
  uint32_t line, column;
};

struct Type {
  enum Kind : uint16_t { kInteger = 0 };
  uint16_t kind;
  // For an integer: bit 0 is 1 if the integer is signed; the other bits are the binary logarithm of
  // its width in bits.
  uint16_t info;
  char name[];  // name of the type, in quotes
};

struct Operation {  // used for an overflow, an invalid value, and an invalid array length
  Location location;
  const Type* type;
};
struct TypeMismatch {
  Location location;
  const Type* type;
  uint8_t alignment;  // binary logarithm of the alignment in bytes
  uint8_t kind;       // kind of the access: index in kAccesses
};
struct Shift {
  Location location;
  const Type *left, *right;
};
struct OutOfBounds {
  Location location;
  const Type *array, *index;
};
struct LocationOnly {
  Location location;
};
struct NonNullArgument {
  Location location, attribute;
  int number;
};

// A value as text: a decimal number for an integer of up to 64 bits, otherwise "something".
class Value {
 public:
  Value(const Type& type, uintptr_t word) {
    const unsigned bits = 1u << (type.info >> 1);
    if (type.kind != Type::kInteger || bits > 64) {
      format(text_, sizeof(text_), "something");
    } else if ((type.info & 1) == 0) {
      format(text_, sizeof(text_), "%lu", static_cast<unsigned long>(word));
    } else {
      const unsigned unused = 64 - bits;
      format(text_, sizeof(text_), "%ld", static_cast<long>(word << unused) >> unused);
    }
  }
  const char* text() const { return text_; }

 private:
  char text_[24];
};

// Reports file:line:column, a blank, and the message.
#define REPORT(location, pattern, ...)                                                \
  sanitizer_report("UndefinedBehaviorSanitizer: %s:%u:%u: " pattern, (location).file, \
                   (location).line, (location).column __VA_OPT__(, ) __VA_ARGS__)

void overflow(const Operation& at, const char* sign, uintptr_t left, uintptr_t right) {
  REPORT(at.location, "overflow: %s %s %s in %s", Value(*at.type, left).text(), sign,
         Value(*at.type, right).text(), at.type->name);
}

const char* const kAccesses[] = {"load",
                                 "store",
                                 "reference binding",
                                 "member access",
                                 "member call",
                                 "constructor call",
                                 "downcast",
                                 "downcast",
                                 "upcast",
                                 "cast to a virtual base",
                                 "_Nonnull binding",
                                 "dynamic operation"};

}  // namespace

extern "C" {

void __ubsan_handle_add_overflow(const Operation* at, uintptr_t left, uintptr_t right) {
  overflow(*at, "+", left, right);
}
void __ubsan_handle_sub_overflow(const Operation* at, uintptr_t left, uintptr_t right) {
  overflow(*at, "-", left, right);
}
void __ubsan_handle_mul_overflow(const Operation* at, uintptr_t left, uintptr_t right) {
  overflow(*at, "*", left, right);
}
void __ubsan_handle_divrem_overflow(const Operation* at, uintptr_t left, uintptr_t right) {
  overflow(*at, "/", left, right);
}
void __ubsan_handle_negate_overflow(const Operation* at, uintptr_t value) {
  REPORT(at->location, "overflow: -(%s) in %s", Value(*at->type, value).text(), at->type->name);
}

void __ubsan_handle_shift_out_of_bounds(const Shift* at, uintptr_t left, uintptr_t right) {
  REPORT(at->location, "shift of %s by %s bits in %s", Value(*at->left, left).text(),
         Value(*at->right, right).text(), at->left->name);
}

void __ubsan_handle_out_of_bounds(const OutOfBounds* at, uintptr_t index) {
  REPORT(at->location, "index %s is outside of %s", Value(*at->index, index).text(),
         at->array->name);
}

void __ubsan_handle_type_mismatch_v1(const TypeMismatch* at, uintptr_t address) {
  const char* const access =
      at->kind < sizeof(kAccesses) / sizeof(*kAccesses) ? kAccesses[at->kind] : "access";
  const uintptr_t alignment = uintptr_t{1} << at->alignment;
  const char* const what = address == 0                ? "a null pointer"
                           : address & (alignment - 1) ? "a misaligned address"
                                                       : "an address without room for the object";
  REPORT(at->location, "%s of %s at 0x%lx, %s (alignment %lu)", access, at->type->name, address,
         what, alignment);
}

void __ubsan_handle_pointer_overflow(const LocationOnly* at, uintptr_t base, uintptr_t result) {
  REPORT(at->location, "pointer overflow: from 0x%lx to 0x%lx", base, result);
}

void __ubsan_handle_load_invalid_value(const Operation* at, uintptr_t value) {
  REPORT(at->location, "%s is no value of %s", Value(*at->type, value).text(), at->type->name);
}

void __ubsan_handle_vla_bound_not_positive(const Operation* at, uintptr_t bound) {
  REPORT(at->location, "an array of %s elements", Value(*at->type, bound).text());
}

void __ubsan_handle_nonnull_arg(const NonNullArgument* at) {
  REPORT(at->location, "argument %d is a null pointer", at->number);
}

void __ubsan_handle_nonnull_return_v1(const LocationOnly* /*attribute*/, const Location* at) {
  REPORT(*at, "a null pointer is returned");
}

void __ubsan_handle_invalid_builtin(const LocationOnly* at) {
  REPORT(at->location, "clz or ctz of 0");
}

// The loops keep these functions from returning, because the compiler has emitted no code after the
// calls.
[[noreturn]] void __ubsan_handle_builtin_unreachable(const LocationOnly* at) {
  for (;;) REPORT(at->location, "unreachable code was reached");
}
[[noreturn]] void __ubsan_handle_missing_return(const LocationOnly* at) {
  for (;;) REPORT(at->location, "a function ended without a return value");
}
}

#endif  // CONFIG_UBSAN
