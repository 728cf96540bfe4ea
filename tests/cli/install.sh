# make install: what lands where, and that a stranger can build against it.
. "$(dirname "$0")/../lib.sh"
export MAKEFLAGS=''
version=$(cat "$TOP/VERSION")
# What was built is installed as it is (-o all): other suites run on it at the same time.
in_tree() {
    make -s -o all -C "$TOP" BUILD="$AKV_BUILD" "$@"
}

t_begin "install puts tools, library, header, pkg-config file and man pages under DESTDIR and PREFIX, nothing elsewhere"
t_run 0 in_tree install DESTDIR="$T/dest" PREFIX=/opt/akv
for file in include/akv.h lib/libakv.a "lib/libakv.so.$version" lib/libakv.so lib/pkgconfig/akv.pc; do
    [ -s "dest/opt/akv/$file" ] || t_fail "$file is missing"
done
for tool in $TOOLS; do
    [ -x "dest/opt/akv/bin/$tool" ] || t_fail "$tool is missing"
    [ -s "dest/opt/akv/share/man/man1/$tool.1" ] || t_fail "$tool.1 is missing"
done
t_is "$(find dest -type f ! -path 'dest/opt/akv/*')" "" "what else was installed"
t_is "$(find dest -type f -perm /022)" "" "files that others may write"

t_begin "the installed tools run where they are, with the installed library"
for tool in $TOOLS; do
    t_run 0 "dest/opt/akv/bin/$tool" -V
    t_out "^$tool"
    t_run 0 ldd "dest/opt/akv/bin/$tool"
    t_out "libakv.so.[0-9]+ => $T/dest/opt/akv/"
done

cat >use.c <<'C'
#include <akv.h>
#include <stdio.h>
int main(void)
{
    printf("%s %d\n", akv_version(), akv_exit_status(AKV_E_INPUT));
    return 0;
}
C
if t_begin "a program builds with pkg-config against the shared library, and runs" plain gcc pkg-config; then
    t_run 0 in_tree install PREFIX="$T/inst"
    export PKG_CONFIG_PATH=$T/inst/lib/pkgconfig
    t_run 0 pkg-config --modversion akv
    t_out "^${version//./\\.}\$"
    t_sh 0 'gcc -Wall -Werror -o use use.c $(pkg-config --cflags --libs akv)'
    t_run 0 env LD_LIBRARY_PATH="$T/inst/lib" ./use
    t_out "^${version//./\\.} 3\$"
fi

if t_begin "and against the static one" plain gcc pkg-config; then
    t_sh 0 'gcc -o use-static use.c $(pkg-config --cflags akv) "$T/inst/lib/libakv.a" $(pkg-config --static --libs akv | sed "s/-lakv//")'
    t_run 0 ./use-static
    t_out "^${version//./\\.} 3\$"
fi

t_begin "uninstall takes everything away again"
t_run 0 in_tree install PREFIX="$T/inst"
t_run 0 in_tree uninstall PREFIX="$T/inst"
t_is "$(find inst ! -type d)" "" "what is left"
t_end
