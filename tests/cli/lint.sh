# scripts/lint finds what it is for: each check on a small tree that breaks its rule, and on one that does not.
. "$(dirname "$0")/../lib.sh"

mkdir -p scripts lib/base lib/model lib/kv lib/engine kernels cmd tests/cli man .ci
cp "$TOP/scripts/lint" "$TOP"/scripts/cppcheck.* scripts/
cp "$TOP/.clang-format" "$TOP/Makefile" "$TOP/VERSION" .
export AKV_BUILD=build/none MAKEFLAGS=''

# finds CHECK PATTERN: the check fails and says so; holds CHECK: it passes.
finds() {
    t_run 1 scripts/lint "$1"
    t_out "$2"
    t_out "^lint: 0 passed, 1 failed, 0 skipped\$"
}
holds() {
    t_run 0 scripts/lint "$1"
    t_out "^lint: 1 passed, 0 failed, 0 skipped\$"
}
cat >lib/base/good.c <<'C'
/* strcpy(a, b) in a comment */
#include "base/good.h"

int good(int x)
{
    return x + (int)sizeof "strcpy(a, b)";
}
C
echo 'int good(int x);' >lib/base/good.h

t_begin "banned calls, but not in comments and strings"
holds banned
printf 'void f(char *a) { /* one\n two */ strcpy (a, "x"); }\n' >lib/base/bad.c
finds banned '^  \| lib/base/bad.c:2:.*strcpy'
rm lib/base/bad.c

t_begin "includes against the architecture, and those that it allows"
echo '#include "akv.h"' >lib/base/err.h
printf '#include "model/dtype.h"\n#include "kernels/kernels.h"\n' >kernels/k.c
printf '#include "base/good.h"\n#include "model/model.h"\n#include "kernels/kernels.h"\n' >lib/engine/e.c
printf '#include "akv.h"\n#include "cmd/cmd.h"\n#include <stdio.h>\n' >cmd/c.c
holds includes
for bad in lib/base:kv/key.h lib/model:kv/arena.h lib/kv:model/model.h kernels:base/err.h cmd:base/err.h lib/engine:snap/snap.h \
    lib/model:akv.h lib/kv:kernels/kernels.h; do
    echo "#include \"${bad#*:}\"" >"${bad%:*}/bad.c"
    finds includes "^  \| ${bad%:*}/bad.c:1: .* must not include \"${bad#*:}\""
    rm "${bad%:*}/bad.c"
done
rm kernels/k.c lib/engine/e.c cmd/c.c lib/base/err.h

t_begin "two files of one name"
holds names
echo >lib/kv/good.c
finds names 'lib/kv/good.c: same name as lib/base/good.c'
rm lib/kv/good.c

t_begin "files and lines that are too long"
holds length
yes ';' | head -n 801 >lib/kv/long.c
finds length 'lib/kv/long.c: 801 lines'
printf '/* %0170d */\n' 0 >lib/kv/long.c
finds columns 'lib/kv/long.c:1: 176 columns'
rm lib/kv/long.c

t_begin "host names"
holds hosts
echo "see http:/""/some.host/x" >man/a.1
finds hosts 'man/a.1:1'
echo "mail to me@example.com about it" >man/a.1
holds hosts
rm man/a.1

if t_begin "code that is not formatted" clang-format; then
    holds format
    echo 'int  f (int x){return x;}' >lib/kv/ugly.c
    finds format 'lib/kv/ugly.c: not as clang-format'
    rm lib/kv/ugly.c
fi
if t_begin "bugs that cppcheck sees" cppcheck; then
    holds cppcheck
    printf '#include <stdlib.h>\nvoid f(void)\n{\n    int *p = malloc(4);\n    p[1] = 0;\n    free(p);\n}\n' >lib/kv/bug.c
    finds cppcheck 'lib/kv/bug.c:5'
    rm lib/kv/bug.c
fi
if t_begin "warnings of clang" clang; then
    holds clang
    printf 'int f(long x);\nint f(long x)\n{\n    return x;\n}\n' >lib/kv/warn.c
    finds clang 'lib/kv/warn.c:4'
    rm lib/kv/warn.c
fi
if t_begin "shell scripts" shellcheck; then
    printf '#!/bin/sh\nrm $1/x\n' >.ci/run
    finds shellcheck 'SC2086'
    printf '#!/bin/sh\nrm "$1/x"\n' >.ci/run
    printf 'rm "$1"\n' >tests/cli/x.sh
    holds shellcheck
    printf 'rm $1\n' >tests/cli/x.sh
    finds shellcheck 'SC2086'
    rm tests/cli/x.sh
fi
if t_begin "man pages" mandoc; then
    printf '.Dd January 1, 2026\n.Dt X 1\n.Os\n.Sh NAME\n.Nm x\n.Nd y\n.Fo\n' >man/x.1
    finds man 'man/x.1:7'
    rm man/x.1
fi

if t_begin "symbols of the library" gcc nm; then
    export AKV_BUILD=build
    mkdir -p build
    cat >lib/akv.h <<'C'
#define AKV_API __attribute__((visibility("default")))
/* AKV_API int akv_old(void); */
AKV_API int akv_one(int (*fn)(void));
AKV_API const struct akv_thing *akv_two(
    void);
C
    so() {
        cat >x.c
        gcc -w -fno-builtin -shared -fPIC -o build/libakv.so x.c
    }
    so <<<'int akv_one(void) { return 1; } int akv_two(void) { return 2; }'
    holds exports
    holds quiet_library
    holds libm
    so <<<'int akv_one(void) { return 1; } int akv_three(void) { return 3; }'
    finds exports 'declared but not exported: akv_two'
    t_out 'exported but not declared: akv_three'
    so <<<'void akv_one(void) { puts("x"); } float akv_two(float x) { return expf(x); }'
    finds quiet_library 'puts'
    finds libm 'expf'
fi

if t_begin "options that only the help or only the man page knows"; then
    touch cmd/akv_gen.c
    printf '#!/bin/sh\necho "usage: akv-gen [-x] [--once]\n  -x, --both  text with --another\n      --only-help N"\n' >build/akv-gen
    chmod +x build/akv-gen
    finds options 'man/akv-gen.1: missing'
    printf '.It Fl x , Fl -both\n.It Fl -only-man\n' >man/akv-gen.1
    finds options 'not in the man page: --only-help'
    t_out 'not in --help: --only-man'
    printf '.It Fl x , Fl -both\n.It Fl -only-help Ar N\n' >man/akv-gen.1
    holds options
fi

t_begin "a check that has nothing to look at is skipped, and counted"
AKV_BUILD=nowhere t_run 0 scripts/lint exports
t_out '^lint: 0 passed, 0 failed, 1 skipped$'
t_end
