# tests/run and tests/lib.sh themselves: what is counted, shown and returned. A harness that cannot fail proves nothing.
. "$(dirname "$0")/../lib.sh"

mkdir -p tree/tests/cli tree/tests/unit tree/cmd tree/build/tests
cp "$TOP/tests/run" "$TOP/tests/lib.sh" tree/tests/
suite() {
    { echo '. "$(dirname "$0")/../lib.sh"' && cat; } >"tree/tests/cli/$1.sh"
}
# A unit test binary that prints what cmocka would.
unit() {
    touch "tree/tests/unit/$1.c"
    { echo '#!/bin/sh' && cat; } >"tree/build/tests/$1"
    chmod +x "tree/build/tests/$1"
}
run() {
    env -u AKV_FAST AKV_BUILD=build "$@" tree/tests/run
}
only() {
    rm -f tree/tests/cli/*.sh tree/tests/unit/*.c tree/build/tests/*
}

t_begin "no suites at all: not a success"
t_run 1 run
t_out '^0 passed, 0 failed, 0 skipped$'

t_begin "passes and skips are counted, and the total is the last line"
suite good <<'S'
t_begin "one"
t_run 0 true
t_begin "two" no-such-program || :
t_begin "three"
t_run 3 sh -c 'echo out; echo err >&2; exit 3'
t_out '^out$'
t_err '^err$'
t_out_is <(echo out)
t_end
S
unit test_good <<'S'
echo '1..3'; echo 'ok 1 - a'; echo 'not ok 2 # SKIP b'; echo 'ok 3 - c'
S
t_run 0 run
t_out '^good: 2 passed, 0 failed, 1 skipped$'
t_out '^test_good: 2 passed, 0 failed, 1 skipped$'
t_is "$(tail -n 1 "$t_stdout")" "4 passed, 0 failed, 2 skipped" "the last line"

t_begin "a script without what it needs is one test skipped, and ends"
only
suite needs <<<'t_needs no-such-program sh; t_begin "a"; t_end'
suite has <<<'t_needs sh; t_begin "a"; t_end'
t_run 0 run
t_out '^needs: 0 passed, 0 failed, 1 skipped$'
t_out '^has: 2 passed, 0 failed, 0 skipped$'

t_begin "a failed check fails its test once, whatever passes after it, and the log's end is shown"
only
suite bad <<'S'
t_begin "wrong status, wrong output"
t_run 0 sh -c 'echo seen; exit 1'
t_out 'unseen'
t_is 1 2 "a value"
t_begin "fine"
t_run 0 true
t_end
S
unit test_bad <<'S'
echo 'ok 1 - a'; echo 'not ok 2 - b'; echo '# 0x1 != 0x2'; exit 1
S
t_run 1 run
t_out '^bad: 1 passed, 1 failed, 0 skipped$'
t_out '^  \| FAILED: wrong status, wrong output: exit status 1, expected 0$'
t_out '^  \|     seen$'
t_out '^test_bad: 1 passed, 1 failed, 0 skipped$'
t_out '^  \| # 0x1 != 0x2$'
t_out '^2 passed, 2 failed, 0 skipped$'

for check in 't_out_is <(echo x)' 't_same /etc/passwd /dev/null' 't_err x' 't_err_line x' 't_run 1 true' 't_sh 0 "false | true"'; do
    t_begin "the check can fail: $check"
    only
    suite one <<<"t_begin 'it'; $check; t_end"
    t_run 1 run
    t_out '^one: 0 passed, 1 failed, 0 skipped$'
done

t_begin "a script that dies has failed, and so has one that forgot to end"
only
suite unset <<<'t_begin "a"; echo "$no_such_variable"; t_end'
suite leaves <<<'t_begin "a"; t_run 0 true; exit 0; t_end'
suite empty <<<'t_end'
suite syntax <<<'if then'
t_run 1 run
t_out '^unset: 0 passed, 1 failed, 0 skipped$'
t_out '^leaves: 0 passed, 1 failed, 0 skipped$'
t_out '^empty: 0 passed, 1 failed, 0 skipped$'
t_out '^syntax: 0 passed, 1 failed, 0 skipped$'

t_begin "so has a unit test that crashes, leaks after its tests, or was not built"
only
unit test_crash <<<'echo "ok 1 - a"; kill -SEGV $$'
unit test_leak <<<'echo "ok 1 - a"; echo "Direct leak" >&2; exit 1'
touch tree/tests/unit/test_unbuilt.c
t_run 1 run
t_out '^test_crash: 1 passed, 1 failed, 0 skipped$'
t_out '^test_leak: 1 passed, 1 failed, 0 skipped$'
t_out '^test_unbuilt: 0 passed, 1 failed, 0 skipped$'

t_begin "a suite that hangs is stopped, with all that it started"
only
unit test_hang <<<'sleep 60 & echo $! >"$T/sleeper"; wait'
t_run 1 run AKV_TIMEOUT=1
t_out '^test_hang: 0 passed, 1 failed, 0 skipped$'
t_out 'stopped after 1 seconds'
! grep -qs '^State:.*[RSD] ' "/proc/$(cat sleeper)/status" || t_fail "its child still runs"

t_begin "two run at a time, and reports do not mix"
only
for i in 1 2 3 4; do
    unit test_$i <<<"echo start >>'$T/order'; sleep 0.3; echo end >>'$T/order'; for n in 1 2 3; do echo 'not ok \$n - $i'; done; exit 3"
done
rm -f order
t_run 1 run AKV_JOBS=2
t_is "$(head -n 2 order | tr '\n' ' ')" "start start " "the first two events"
t_is "$(awk '{ d += $1 == "start" ? 1 : -1; if (d > m) m = d } END { print m }' order)" 2 "the most at a time"
t_is "$(awk '/^test_/ { n = substr($1, 6, 1) } / - [0-9]/ && $NF != n' "$t_stdout")" "" "lines under another suite"

t_begin "slow suites are left out when asked, and counted"
only
unit test_smollm2 <<<'echo "ok 1 - a"'
unit test_quick <<<'echo "ok 1 - a"'
t_run 0 run AKV_FAST=1
t_out '^test_smollm2: 0 passed, 0 failed, 1 skipped$'
t_out '^1 passed, 0 failed, 1 skipped$'
t_run 0 run
t_out '^2 passed, 0 failed, 0 skipped$'

t_begin "scripts see none of the user's settings"
only
suite clean <<'S'
t_begin "a"
t_is "${AKV_MODEL-}${AKV_STORE-}${AKV_CPU-}" "" "settings"
t_is "$HOME $PWD" "$T $T" "places"
t_end
S
t_run 0 run AKV_MODEL=x AKV_STORE=y AKV_CPU=scalar
t_end
