# The default number of threads: the processors that a process may use, not those that there are.
. "$(dirname "$0")/../lib.sh"

# threads OF-COMMAND...: how many threads it has when it answered a request and waits for the next.
threads() {
    local line
    coproc GEN { exec "$@"; }
    local pid=$GEN_PID
    echo '{"akv":"tokens/1","id":"a","n":2,"tokens":[1,2],"gen":{"max_tokens":1,"temperature":0}}' >&"${GEN[1]}"
    read -r line <&"${GEN[0]}" || t_fail "no answer"
    find "/proc/$pid/task" -mindepth 1 -maxdepth 1 | wc -l
    eval "exec ${GEN[1]}>&-"
    wait "$pid"
}

first=$(taskset -cp $$ 2>/dev/null | sed 's/.*: *//; s/[-,].*//')

if t_begin "one processor of the affinity mask: one thread" tiny taskset; then
    one=$(threads taskset -c "$first" akv-gen --json -m "$TINY")
    two=$(threads taskset -c "$first" akv-gen --json -@ 2 -m "$TINY")
    [ "$((two - one))" = 1 ] || t_fail "$one threads, $two with -@ 2"
fi

t_end
