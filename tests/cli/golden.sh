# The malformed models of the reference data: refused, or run with a word on stderr, as their index says; never a crash.
. "$(dirname "$0")/../lib.sh"
bad=$SHARED/golden/models/bad
index=/dev/null
[ -z "$SHARED" ] || index=$bad/INDEX.tsv

echo '{"akv":"tokens/1","id":"r","n":3,"tokens":[72,105,33]}' >three.tok

# tried COMMAND...: no signal, no hang, and a failure says why on one line of stderr and nothing on stdout.
tried() {
    t_command="$*"
    timeout 30 "$@" >"$t_stdout" 2>"$t_stderr" </dev/null
    status=$?
    [ $status -lt 124 ] || t_fail "exit status $status: a signal or a hang"
    [ $status -eq 0 ] || { [ $status -ge 3 ] && [ $status -le 5 ]; } || t_fail "exit status $status: not one for bad data"
    [ "$status" -eq 0 ] || t_err_line "^$1: .*: .+"
}

if t_begin "the index names every malformed model" shared; then
    t_is "$(cut -f 1 "$bad/INDEX.tsv" | LC_ALL=C sort | tr '\n' ' ')" \
        "$(cd "$bad" && printf '%s\n' *.gguf | LC_ALL=C sort | tr '\n' ' ')" "the files"
fi
while IFS=$'\t' read -r file what expected; do
    t_begin "$file: $what: $expected"
    tried akv-inspect "$bad/$file"
    inspected=$status
    cp "$t_stderr" words
    tried akv-gen -m "$bad/$file" -n 2 three.tok
    case $expected in
    ok)
        t_is "$status" 0 "the exit status"
        t_is "$inspected" 0 "the exit status of akv-inspect"
        [ ! -s "$t_stderr" ] || t_fail "words on stderr about a valid file"
        ;;
    reject)
        [ $status -ne 0 ] || t_fail "it runs"
        # what cannot be run may still be described, when the reason is said
        [ $inspected -ne 0 ] || {
            t_run 0 akv-inspect "$bad/$file"
            t_out 'cannot be run: .'
        }
        ;;
    warn)
        [ $status -ne 0 ] || [ -s "$t_stderr" ] || [ -s words ] || t_fail "it runs without a word"
        ;;
    *) t_fail "the index says '$expected'" ;;
    esac
done <"$index"
t_end
