/* getopt, getopt_long and getopt_long_only, as in POSIX and GNU. `optind` begins at 1; a program
 * sets it to 0 to restart. Operands are moved after the options, unless POSIXLY_CORRECT is set or
 * the short options begin with '+'. If the short options begin with '-', each operand is returned
 * as the argument of an option with code 1. A ':' at the start of the short options (after '+' or
 * '-') suppresses messages, and makes a missing argument return ':' instead of '?'.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char* optarg;
int optind = 1, opterr = 1, optopt = '?';

/* The next letter of a group like -abc in argv[optind]; NULL between groups. */
static const char* letters;

struct request {
  int argc;
  char* const* argv;
  const char* letters; /* the short options, without leading '+', '-' and ':' */
  const struct option* words;
  int* index;
  /* quiet: prints no messages; colon: a missing argument returns ':'; one_dash: the caller is
   * getopt_long_only. */
  int quiet, colon, one_dash;
};

static int wrong(const struct request* request, const char* what, const char* dashes,
                 const char* name, size_t length) {
  if (!request->quiet) {
    fprintf(stderr, "%s: %s -- '%s%.*s'\n", request->argv[0], what, dashes, (int)length, name);
  }
  return '?';
}

static int lacks_argument(const struct request* request, const char* dashes, const char* name,
                          size_t length) {
  int result = wrong(request, "option requires an argument", dashes, name, length);
  return request->colon ? ':' : result;
}

/* Moves argv[from] to argv[to], to <= from, and the words between them up by one. */
static void move(char* const* argv, int from, int to) {
  char** words = (char**)argv;
  char* moved = words[from];
  memmove(&words[to + 1], &words[to], (size_t)(from - to) * sizeof *words);
  words[to] = moved;
}

static int is_option(const char* word) {
  return word[0] == '-' && word[1] != '\0';
}

/* Finds the long option with this name, or the only long option whose name begins with it. Returns
 * -1 if there is none; -2 if there are several. Several options with the same effect count as one,
 * but not in getopt_long_only. */
static int find_word(const struct request* request, const char* name, size_t length) {
  const struct option* words = request->words;
  int found = -1, several = 0;
  for (int i = 0; words[i].name != NULL; i++) {
    if (strncmp(words[i].name, name, length) != 0) continue;
    if (words[i].name[length] == '\0') return i;
    if (found < 0) {
      found = i;
    } else if (request->one_dash || words[i].has_arg != words[found].has_arg ||
               words[i].flag != words[found].flag || words[i].val != words[found].val) {
      several = 1;
    }
  }
  return several ? -2 : found;
}

/* Reads argv[optind], a long option with this many dashes. */
static int long_option(const struct request* request, int dashes) {
  const char* name = request->argv[optind] + dashes;
  const char* sign = dashes == 2 ? "--" : "-";
  size_t length = strcspn(name, "=");
  int found = find_word(request, name, length);
  optopt = 0;
  optind++;
  if (found == -2) return wrong(request, "option is ambiguous", sign, name, length);
  if (found < 0) return wrong(request, "unrecognized option", sign, name, length);
  const struct option* option = &request->words[found];
  if (name[length] == '=') {
    if (option->has_arg == no_argument) {
      optopt = option->val;
      return wrong(request, "option takes no argument", sign, name, length);
    }
    optarg = (char*)name + length + 1;
  } else if (option->has_arg == required_argument) {
    if (optind >= request->argc) {
      optopt = option->val;
      return lacks_argument(request, sign, name, length);
    }
    optarg = request->argv[optind++];
  }
  if (request->index != NULL) *request->index = found;
  if (option->flag == NULL) return option->val;
  *option->flag = option->val;
  return 0;
}

static int short_option(const struct request* request) {
  char letter = *letters++;
  const char* known = letter == ':' || letter == ';' ? NULL : strchr(request->letters, letter);
  int last = *letters == '\0';
  if (known == NULL || known[1] != ':') {
    if (last) optind++, letters = NULL;
    if (known != NULL) return letter;
    optopt = letter;
    return wrong(request, "invalid option", "", &letter, 1);
  }
  /* The argument is the rest of the word. If the rest is empty, a required argument is the next
   * word. */
  if (!last) {
    optarg = (char*)letters;
  } else if (known[2] != ':') {
    if (optind + 1 >= request->argc) {
      optind++;
      letters = NULL;
      optopt = letter;
      return lacks_argument(request, "", &letter, 1);
    }
    optarg = request->argv[++optind];
  }
  optind++;
  letters = NULL;
  return letter;
}

/* Reads the option at argv[optind], and advances `optind` after the last letter of a group. */
static int read_option(const struct request* request) {
  if (letters != NULL) return short_option(request);
  const char* word = request->argv[optind];
  if (strcmp(word, "--") == 0) {
    optind++;
    return -1;
  }
  if (request->words != NULL && word[1] == '-') return long_option(request, 2);
  if (request->words != NULL && request->one_dash) {
    /* "-x" is the short option x if it exists. "-xyz" is a group of short options if x is a short
     * option and no long option begins with "xyz". */
    int letter = strchr(request->letters, word[1]) != NULL;
    int found = find_word(request, word + 1, strcspn(word + 1, "="));
    if (!letter || (word[2] != '\0' && found != -1)) return long_option(request, 1);
  }
  letters = word + 1;
  return short_option(request);
}

/* `in_order`: operands are returned like options, in their order. `stop`: the first operand ends
 * the options. */
static int next_option(const struct request* request, int in_order, int stop) {
  char* const* argv = request->argv;
  int operand = optind; /* the first skipped operand */
  int option = operand;
  while (!in_order && !stop && option < request->argc && argv[option] != NULL &&
         !is_option(argv[option]))
    option++;
  if (option >= request->argc || argv[option] == NULL) return -1;
  if (!is_option(argv[option])) {
    if (stop) return -1;
    optarg = argv[optind++];
    return 1;
  }
  optind = option;
  int result = read_option(request);
  /* Moves the words of the option that was read to the front of the operands, one by one. */
  int used = optind - option;
  if (option > operand) {
    for (int i = 0; i < used; i++) move(argv, option + i, operand + i);
  }
  optind = operand + used;
  return result;
}

static int get_option(int argc, char* const argv[], const char* short_options,
                      const struct option* words, int* index, int one_dash) {
  if (optind == 0) optind = 1, letters = NULL;
  optarg = NULL;
  int in_order = *short_options == '-', stop = *short_options == '+';
  if (in_order || stop) {
    short_options++;
  } else if (getenv("POSIXLY_CORRECT") != NULL) {
    stop = 1;
  }
  int colon = *short_options == ':';
  struct request request = {.argc = argc,
                            .argv = argv,
                            .letters = short_options + colon,
                            .words = words,
                            .index = index,
                            .quiet = !opterr || colon,
                            .colon = colon,
                            .one_dash = one_dash};
  return next_option(&request, in_order, stop);
}

int getopt(int argc, char* const argv[], const char* options) {
  return get_option(argc, argv, options, NULL, NULL, 0);
}
int getopt_long(int argc, char* const argv[], const char* options, const struct option* words,
                int* index) {
  return get_option(argc, argv, options, words, index, 0);
}
int getopt_long_only(int argc, char* const argv[], const char* options, const struct option* words,
                     int* index) {
  return get_option(argc, argv, options, words, index, 1);
}
