# The parts of the C library that are musl's: functions that newlib lacks or that violate POSIX in newlib. user/user.mk includes this file.
#
# The source is upstream's archive, as Debian's package archive has it; `source` names it ("PATH SHA256"). Its files are compiled like the
# files of user/libc, with newlib's headers, and become members of libstele.a. So they have frame pointers and the nops of probes. For
# that reason, no file is in assembly language. The headers in this folder hide those of musl that have the same name.
# mended.patch mends musl's errors.

# <math.h>. x86_64/ has those files that use instructions of the x87 unit. remquol is not among them: it reads flags of fprem1, which some
# emulators do not set. log2 and log2f are exact for powers of 2; newlib's are not.
MUSL_LONG_DOUBLE := acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf exp exp10 exp2 expm1 fdim floor fma fmax fmin \
  frexp ilogb ldexp lgamma llround log log10 log1p log2 logb lround modf nearbyint nextafter nexttoward pow remquo round scalbln scalbn sin \
  sincos sinh tan tanh tgamma trunc x86_64/fabs x86_64/fmod x86_64/llrint x86_64/lrint x86_64/remainder x86_64/rint
MUSL_MATH := $(addsuffix l,$(MUSL_LONG_DOUBLE)) fma fmaf log2 log2_data log2f log2f_data nexttoward nexttowardf \
  __cosl __invtrigl __math_invalidl __polevll __rem_pio2_large __rem_pio2l __sinl __tanl
# The functions of posix_spawn.
MUSL_SPAWN := $(addprefix _file_actions_,addchdir addclose adddup2 addfchdir addopen destroy init) \
  $(addprefix attr_,destroy getflags getpgroup getsigdefault getsigmask init setflags setpgroup setsigdefault setsigmask)
# newlib's getopt takes options after an operand. newlib's fnmatch knows no character classes. newlib's strsep returns NULL for an empty
# last field. newlib's glob lacks GLOB_NOESCAPE. newlib's random has no initstate and setstate. newlib lacks the other functions.
MUSL_FILES := $(addprefix math/,$(MUSL_MATH)) locale/iconv locale/iconv_close misc/getopt misc/getopt_long prng/random regex/fnmatch \
  regex/glob string/strsep search/insque search/lsearch legacy/daemon legacy/err $(addprefix process/posix_spawn,$(MUSL_SPAWN)) \
  $(addprefix passwd/,getgr_r getgrent getgrent_a getpw_r getpwent getpwent_a) \
  $(addprefix temp/,mkdtemp mkostemp mkostemps mkstemp mkstemps mktemp) termios/cfgetospeed termios/cfmakeraw termios/cfsetospeed \
  $(addprefix time/,__month_to_secs __secs_to_tm __tm_to_secs __year_to_secs timegm)
# These headers of musl go to the sysroot; include/bits/alltypes.h defines their types. Some are for functions of user/libc.
MUSL_HEADERS := ftw glob iconv spawn sysexits syslog ulimit

MUSL := $(USER_OUT)/musl
MUSL_OBJECTS := $(MUSL_FILES:%=$(USER_OUT)/libc/musl/%.o)
MUSL_CFLAGS := $(USER_CFLAGS) -w -fno-builtin -frounding-math -fno-strict-aliasing -ffile-prefix-map=$(MUSL)=musl \
  -iquote user/libc/musl -iquote $(MUSL)/src/internal -iquote $(MUSL)/arch/generic -include user/libc/musl/musl.h

$(MUSL).unpacked: user/libc/musl/source user/libc/musl/mended.patch
	@scripts/fetch $$(cat $<) '$(CACHE)/ports'
	@rm -rf $(MUSL)
	@mkdir -p $(MUSL)
	@tar xf '$(CACHE)/ports'/$(notdir $(firstword $(shell cat user/libc/musl/source))) --strip-components=1 -C $(MUSL)
	@patch -s -p1 -d $(MUSL) <user/libc/musl/mended.patch
	@touch $@
$(SYSROOT_HEADERS): $(MUSL).unpacked user/libc/musl/musl.mk
$(MUSL_OBJECTS): $(USER_OUT)/libc/musl/%.o: $(MUSL).unpacked $(USER_TOOLCHAIN) $(SYSROOT_HEADERS) $(wildcard user/libc/musl/*)
	@mkdir -p $(@D)
	@echo "  UCC   musl/src/$*.c"
	@$(USER_CC) $(MUSL_CFLAGS) -c -o $@ $(MUSL)/src/$*.c
