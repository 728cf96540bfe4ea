# lib/akv.h as strangers compile it: alone, strictly, in C and in C++.
. "$(dirname "$0")/../lib.sh"

# The header first and twice: it needs nothing before it and guards itself.
cat >use.c <<'C'
#include <akv.h>
#include <akv.h>
struct akv_err akv_test_err = {0, ""};
int main(void)
{
    return akv_test_err.code;
}
C
cp use.c use.cc
strict="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Werror -fsyntax-only -I $TOP/lib"
for cc in gcc clang; do
    for std in c11 c17; do
        if t_begin "$cc -std=$std takes the header without a warning" $cc; then
            # shellcheck disable=SC2086 # flags
            t_run 0 $cc -std=$std $strict use.c
        fi
    done
done
for cxx in g++ clang++; do
    for std in c++11 c++14 c++17 c++20; do
        if t_begin "$cxx -std=$std takes the header without a warning" $cxx; then
            # shellcheck disable=SC2086 # flags
            t_run 0 $cxx -std=$std ${strict/-Wstrict-prototypes /} use.cc
        fi
    done
done

# Every function by its address, from C++: a missing extern "C" would not link.
if t_begin "a C++ program links every function of the header" g++; then
    functions=$(sed 's|/\*.*\*/||' "$TOP/lib/akv.h" | tr '\n' ' ' | grep -oE 'AKV_API[^;(]*\(' | grep -oE 'akv_[a-z0-9_]+\($' | tr -d '(' | sort -u)
    [ -n "$functions" ] || t_fail "the header declares no functions"
    {
        echo '#include <akv.h>'
        echo 'typedef void (*any)();'
        echo 'any volatile all[] = {'
        for f in $functions; do echo "    reinterpret_cast<any>(&$f),"; done
        echo '};'
        echo 'int main() { return all[0] == nullptr; }'
    } >all.cc
    t_run 0 g++ -std=c++11 -I "$TOP/lib" -o all all.cc -L "$AKV_BUILD" -lakv -Wl,-rpath,"$AKV_BUILD" -Wl,--allow-shlib-undefined
fi
t_end
