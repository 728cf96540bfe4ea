# The harness of the CLI tests (tests/cli/*.sh, run by bash). A script sources it and then reads as a list:
#
#   . "$(dirname "$0")/../lib.sh"
#   t_needs tiny jq                                       # what all of its tests need: else it ends here, one skipped
#   t_begin "an unknown option is a usage error"          # starts a test; says what it proves
#   t_run 2 akv-gen --nope                                # runs a command, expects its exit status
#   t_err 'nope'                                          # a line of its stderr matches
#
#   if t_begin "the demo model tokenizes" smol akv-tokenize; then    # needs: else skipped and counted
#       t_run 0 akv-tokenize -m "$SMOL" --raw <<<"hi"
#   fi
#
#   t_end                                                 # the last line of every script
#
# A test fails once, however many of its checks do; the checks go on, and say the command and what it printed.
# Scripts start in an empty directory of their own, $T, which is also home and cache; nothing of the user's settings is seen.
#   $TOP    the repository         $AKV_BUILD  the build under test (absolute; its tools are first on PATH)
#   $TOOLS  names of the built tools         $SHARED  reference data made elsewhere, or empty
#   $TINY   a tiny model, or empty while tests/tools/mkmodel does not exist; $SMOL  the demo model, or empty (also with AKV_FAST=1)
set -u

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
AKV_BUILD=$(cd "$TOP" && cd "${AKV_BUILD:-build/release}" && pwd) || exit 1
SHARED=${AKV_SHARED:-$TOP/../shared}
[ -d "$SHARED" ] || SHARED=
SMOL=${AKV_TEST_MODEL:-$TOP/models/SmolLM2-135M-Instruct.Q4_1.gguf}
[ -r "$SMOL" ] && [ -z "${AKV_FAST-}" ] || SMOL=
TOOLS=
for t_source in "$TOP"/cmd/akv_*.c; do
    t_tool=$(basename "$t_source" .c)
    [ ! -e "$t_source" ] || TOOLS="$TOOLS ${t_tool/akv_/akv-}"
done

T=$(mktemp -d "${TMPDIR:-/tmp}/akv-test.XXXXXX") || exit 1
export AKV_BUILD T HOME=$T XDG_CACHE_HOME=$T/.cache PATH=$AKV_BUILD:$PATH LC_ALL=C.UTF-8
unset AKV_MODEL AKV_STORE AKV_SALT_FILE AKV_CPU AKV_BACKEND
cd "$T" || exit 1
TINY=
[ ! -x "$AKV_BUILD/tests/mkmodel" ] || { "$AKV_BUILD/tests/mkmodel" -o "$T/.tiny.gguf" && TINY=$T/.tiny.gguf; } || exit 1

t_passed=0 t_failed=0 t_skipped=0
t_name='' t_bad='' t_command='' t_ended=''
t_stdout=$T/.out t_stderr=$T/.err

# Close the test that is open.
t_close() {
    [ -n "$t_name" ] || return 0
    if [ -n "$t_bad" ]; then
        t_failed=$((t_failed + 1))
    else
        t_passed=$((t_passed + 1))
        echo "passed: $t_name"
    fi
    t_name='' t_bad=''
}

# t_begin WHAT [NEED...]: open a test. A need is `smol`, `tiny`, `shared`, `plain` (a build without a sanitizer),
# `terminal` (script(1) can make one), `bound` (t_bound works), or a program; without it the test counts as skipped and t_begin returns 1.
t_begin() {
    t_close
    local need why
    for need in "${@:2}"; do
        why=
        case $need in
        smol) [ -n "$SMOL" ] || why="no demo model" ;;
        tiny) [ -n "$TINY" ] || why="no mkmodel" ;;
        shared) [ -n "$SHARED" ] || why="no shared data" ;;
        plain) ! nm -D "$AKV_BUILD/libakv.so" | grep -qE '__(asan|tsan|ubsan)_' || why="sanitizer" ;;
        terminal) script -qec true /dev/null </dev/null >/dev/null 2>&1 || why="no terminal" ;;
        bound) [ -e .bound ] || install -m 400 /dev/null .bound
            t_bound true 2>/dev/null && ! t_bound test -w .bound || why="root" ;;
        *) command -v "$need" >/dev/null 2>&1 || why="no $need" ;;
        esac
        [ -z "$why" ] || {
            t_skipped=$((t_skipped + 1))
            echo "skipped: $1 ($why)"
            return 1
        }
    done
    t_name=$1 t_command=''
}

# t_needs NEED...: what every test of the script needs. A test of its own; when it is skipped the script ends.
t_needs() {
    t_begin "what these tests run on is there" "$@" || {
        t_end
        exit
    }
}

# t_fail WHY: the open test has failed.
t_fail() {
    t_bad=$((${t_bad:-0} + 1))
    [ "$t_bad" -le 5 ] || return 0 # the first ones tell the story
    echo "FAILED: $t_name: $1"
    [ -n "$t_command" ] || return 0
    echo "  command: $t_command"
    t_show stdout "$t_stdout"
    t_show stderr "$t_stderr"
}

# The first lines of a file, unprintable bytes made visible.
t_show() {
    [ ! -s "$2" ] || { echo "  $1:" && head -c 2000 "$2" | cat -v | head -n 20 | sed 's/^/    /'; }
}

# t_run STATUS COMMAND...: run it, keep its output, expect its exit status.
t_run() {
    local want=$1 got
    shift
    t_command="$*"
    "$@" >"$t_stdout" 2>"$t_stderr"
    got=$?
    [ "$got" -eq "$want" ] || t_fail "exit status $got, expected $want"
}

# t_sh STATUS SCRIPT: the same for a pipeline; any part's failure is its failure.
t_sh() {
    t_run "$1" bash -o pipefail -c "$2"
}

# t_bound COMMAND...: run it so that the modes of files bind it, whoever runs the tests.
t_bound() {
    [ "$(id -u)" -ne 0 ] || set -- setpriv --bounding-set=-dac_override,-dac_read_search "$@"
    "$@"
}

# Each takes an extended regular expression that a line of stdout, stderr or a file must match.
t_out() {
    t_grep "$t_stdout" stdout "$1"
}
t_err() {
    t_grep "$t_stderr" stderr "$1"
}
t_grep() {
    grep -qaE -e "$3" "$1" || t_fail "$2 has no line like: $3"
}

# t_err_line PATTERN: stderr is this one line and stdout empty: how every error looks.
t_err_line() {
    t_err "$1"
    [ "$(wc -l <"$t_stderr")" -eq 1 ] || t_fail "stderr is not one line"
    [ ! -s "$t_stdout" ] || t_fail "stdout is not empty"
}

# t_out_is FILE: stdout is exactly that file. Not at the end of a pipe: a failure there would be forgotten; use <(...).
t_out_is() {
    cmp -s "$t_stdout" "$1" || t_fail "stdout is not what it should be"
}

# t_same A B...: the files are byte for byte equal.
t_same() {
    local first=$1 other
    shift
    for other; do cmp -s "$first" "$other" || t_fail "$first and $other differ"; done
}

# t_is GOT WANT WHAT
t_is() {
    [ "$1" = "$2" ] || t_fail "$3 is '$1', expected '$2'"
}

t_end() {
    t_close
    t_ended=1
}

# However the script ends: a script that died on its way to t_end has failed.
t_exit() {
    [ -n "$t_ended" ] || {
        t_name=${t_name:-the script}
        t_fail "the script ended here"
        t_close
    }
    cd / && rm -rf "$T"
    echo "suite: $t_passed passed, $t_failed failed, $t_skipped skipped"
    [ "$t_failed" -eq 0 ] || exit 1
    exit 0
}
trap t_exit EXIT
trap 'exit 130' INT TERM
