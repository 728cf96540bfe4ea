# A model file that becomes shorter while it is in use, at every call that a tool makes meanwhile: an error, never a crash, and never an
# answer or a page that the whole model would not have given.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/fault/rig.sh"
every=${AKV_LONG:+1}
every=${every:-${AKV_FAST:+31}}
every=${every:-11}
bytes=$(stat -c %s "$TINY")

# run SPEC COMMAND: in an empty place with a fresh copy of the model, and an old output.
run() {
    rm -rf w
    mkdir w
    cp "$TINY" w/model.gguf
    cp b.akv w/out
    AKV_MODEL=$T/w/model.gguf XDG_CACHE_HOME=$T/w/cache faulty "$1" bash -c "exec $2" >stdout 2>stderr
    status=$?
}

# cut_at N TO: the file is cut to that size after call N.
cut_at() {
    what="cut to $2 of $bytes bytes after call $1 ($kind ${path#"$T"/}) of $command"
    export AKV_FAULT_CUT="$2 $T/w/model.gguf"
    run "$1 CUT" "$command"
    unset AKV_FAULT_CUT
    case $status in
    0) cmp -s "$output" "$wanted" || t_fail "$what: exit status 0, but the output is not right" ;;
    3 | 4 | 5)
        [ "$(wc -l <stderr)" = 1 ] || t_fail "$what: exit status $status with $(head -n 2 stderr | tr '\n' '|')"
        if [ "$output" = stdout ]; then
            cmp -s -n "$(stat -c %s stdout)" stdout "$wanted" || t_fail "$what: exit status $status, and what was written is not right"
        else
            cmp -s w/out b.akv || t_fail "$what: exit status $status, but there is an output"
        fi
        ;;
    *) t_fail "$what: exit status $status: $(head -n 1 stderr)" ;;
    esac
    [ -z "$(find w -maxdepth 1 -name '.akv-*')" ] || t_fail "$what: left a temporary file"
    check_store
}

turn=0
# walk OUTPUT WANTED COMMAND
walk() {
    output=$1 wanted=$2 command=$3
    local n kind path size cases=0
    t_begin "the model is cut at every call of $command"
    rm -f calls
    export AKV_FAULT_LOG=$T/calls
    run "0 CUT" "$command"
    unset AKV_FAULT_LOG
    [ $status = 0 ] || t_fail "without a cut: exit status $status: $(head -n 1 stderr)"
    cmp -s "$output" "$wanted" || t_fail "without a cut: other output"
    while read -r n kind path; do
        for size in 0 4096 $((bytes / 2)) $((bytes - 4096)) $((bytes - 2000)) $((bytes - 1)); do
            turn=$(((turn + 1) % every))
            [ $turn = 0 ] || continue
            cut_at "$n" $size
            cases=$((cases + 1))
        done
    done <calls
    echo "$cases cuts at $(wc -l <calls) calls: $command"
}

walk w/out a.akv "akv-prefill -q -@ 1 -s w/store --save -o w/out a.tok"
walk stdout a.akv "akv-prefill -q -@ 1 -s w/store --save a.tok"
walk w/out a.akv "akv-prefill -q -@ 4 -s w/store --save -o w/out a.tok"
walk stdout a.text "akv-gen -q -@ 3 -s w/store --save -n $n_reply a.tok"
akv-tokenize --raw -o raw.tok <<<"$(cat a.text)"
cat a.text >raw.text
walk w/out raw.tok "akv-tokenize -q --raw -o w/out raw.text"
t_end
