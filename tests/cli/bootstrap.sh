# scripts/bootstrap, with a package manager that only pretends.
. "$(dirname "$0")/../lib.sh"

# A PATH with little more than a dpkg-query that knows the packages in ./installed (and one in ./removed, of which only the
# configuration is left) and an apt-get that adds to them.
mkdir bin
for tool in sh env tr cat sed; do ln -s "$(command -v $tool)" bin/; done
cat >bin/dpkg-query <<'F'
#!/bin/sh
shift 3
while read -r p; do
    case " $* " in *" $p "*) printf '%s=installed ' "$p" ;; esac
done <"$T/installed"
[ ! -e "$T/removed" ] || printf '%s=config-files ' "$(cat "$T/removed")"
exit 1
F
cat >bin/apt-get <<'F'
#!/bin/sh
echo "apt-get $*" >>"$T/apt.log"
[ ! -e "$T/broken" ] || exit 100
for word; do case $word in -*|install|update|*=*) ;; *) echo "$word" >>"$T/installed" ;; esac; done
F
printf '#!/bin/sh\ncat "$T/uid"\n' >bin/id
chmod +x bin/*
bootstrap() {
    env -i T="$T" PATH="$T/bin" "$@" "$(command -v sh)" "$TOP/scripts/bootstrap" </dev/null
}
everything=$(PATH=/nowhere AKV_BOOTSTRAP=0 "$(command -v sh)" "$TOP/scripts/bootstrap" lint 2>&1 | sed 's/.*: //')
everything="${everything//|pkgconf/} python3-pip"
have() {
    printf '%s\n' "$@" >installed
    rm -f apt.log
}

t_begin "nothing missing: silent, nothing run"
echo 0 >uid
# shellcheck disable=SC2086 # a list
have $everything
t_run 0 bootstrap
t_out_is /dev/null
[ ! -s "$t_stderr" ] || t_fail "stderr is not empty"
[ ! -e apt.log ] || t_fail "apt-get was called"

t_begin "another package that provides the same will do"
sed -i 's/^pkg-config$/pkgconf/' installed
t_run 0 bootstrap AKV_BOOTSTRAP=0
t_out_is /dev/null

t_begin "AKV_BOOTSTRAP=0 lists what is missing, one a line, and installs nothing, also as root"
sed -i -e '/^libzstd-dev$/d' -e '/^jq$/d' installed
t_run 1 bootstrap AKV_BOOTSTRAP=0
t_out_is <(printf 'libzstd-dev\njq\n')
[ ! -e apt.log ] || t_fail "apt-get was called"

t_begin "a removed package whose configuration is left is missing"
echo zstd >removed
sed -i '/^zstd$/d' installed
t_run 1 bootstrap AKV_BOOTSTRAP=0
t_out '^zstd$'
rm removed
echo zstd >>installed

t_begin "root installs what is missing and says it first"
t_run 0 bootstrap
t_err '^bootstrap: Debian packages to install: libzstd-dev jq$'
t_is "$(grep -c ' install .*libzstd-dev jq$' apt.log)" 1 "number of installations"
t_run 0 bootstrap AKV_BOOTSTRAP=0

t_begin "on a bare system everything is named, pip too"
have nothing
t_run 1 bootstrap AKV_BOOTSTRAP=0
t_out '^gcc$'
t_out '^python3-pip$'

t_begin "a failing installation fails, and says what is missing"
touch broken
t_run 1 bootstrap
t_err 'apt-get failed'
rm broken

t_begin "another user without a yes: nothing is installed, the command is told"
echo 1000 >uid
printf '#!/bin/sh\necho sudo >>"$T/apt.log"\nexec "$@"\n' >bin/sudo
chmod +x bin/sudo
# shellcheck disable=SC2086 # a list
have $everything
sed -i '/^gcc$/d' installed
t_run 1 bootstrap
t_err 'AKV_BOOTSTRAP=1'
t_err 'apt-get install .*gcc$'
[ ! -e apt.log ] || t_fail "apt-get was called"

for yes in AKV_BOOTSTRAP=1 CI=true; do
    t_begin "another user with $yes: through sudo"
    # shellcheck disable=SC2086 # a list
    have $everything
    sed -i '/^gcc$/d' installed
    t_run 0 bootstrap "$yes"
    t_is "$(grep -c '^sudo$' apt.log)" 2 "calls of sudo"
    t_out_is /dev/null
done

for answer in y n; do
    if t_begin "another user at a terminal who answers $answer" terminal; then
        # shellcheck disable=SC2086 # a list
        have $everything
        sed -i '/^gcc$/d' installed
        status=1 calls=''
        [ $answer = n ] || status=0 calls=2
        t_run $status \
            script -qec "env -i T='$T' PATH='$T/bin' sh '$TOP/scripts/bootstrap'" /dev/null <<<"$answer"
        t_is "$(grep -c '^sudo$' apt.log 2>/dev/null)" "$calls" "calls of sudo"
    fi
done

t_begin "without sudo the command is told"
rm bin/sudo
sed -i '/^gcc$/d' installed
t_run 1 bootstrap AKV_BOOTSTRAP=1
t_err 'no sudo'

t_begin "a system without dpkg is left to its compiler"
rm bin/dpkg-query
t_run 0 bootstrap
t_out_is /dev/null
t_end
