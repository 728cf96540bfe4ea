# Reuse never changes a bit: whatever way a prompt's KV came to be, the pages, the snapshot and the reply are the same.
. "$(dirname "$0")/../lib.sh"

text='The lighthouse keeper wrote every evening. On the ninth of March the wind came from the north, and 3 ships passed before midnight; one of them carried 412 crates of oranges, two lanterns and a letter that nobody had signed. He put the kettle on, counted the steps down to the landing stage (there were 89), and waited for the boat.
if (wind > 7) { light = true; } else { sleep(30); }
Later he noted: "Nothing was lost. The lamp burned clear; the glass had to be wiped twice, and the clock, which had stopped at 4:17, was set again by the stars." In the morning a boy came with bread, asked about the ships, and went away with a drawing of the largest one under his arm.'

# cut_record RECORD N: the first N tokens of a record, as a prefix to compute.
cut_record() {
    jq -c --argjson n "$2" '{akv, id: "cut-\($n)", n: $n, tokens: .tokens[:$n], gen: {max_tokens: 0}}' "$1"
}

# The same request by every road: cold.akv and cold.json are what all must equal.
# all_roads MODEL SECOND_CPU CUTS...
all_roads() {
    local model=$1 cpu=$2 cut threads
    shift 2
    export AKV_MODEL=$model
    rm -rf store store2 ./*.akv
    t_sh 0 'akv-tokenize --raw text >full.tok'
    t_run 0 akv-prefill -@ 1 -o cold.akv full.tok
    t_sh 0 'akv-gen -@ 1 -n 12 --json full.tok | jq -c "[.text, .tokens]" >cold.json'
    t_run 0 zstd -qt cold.akv

    for threads in 1 2; do
        t_sh 0 "AKV_CPU=$cpu akv-prefill -@ $threads full.tok >other.akv"
        t_same cold.akv other.akv
        t_sh 0 "AKV_CPU=$cpu akv-gen -@ $threads -n 12 --json full.tok | jq -c '[.text, .tokens]' >other.json"
        t_same cold.json other.json
    done
    for cut; do
        cut_record full.tok "$cut" >cut.tok
        t_run 0 akv-prefill -@ 2 -o cut.akv cut.tok
        # as a delta joined to its base, answered and computed further
        t_run 0 akv-prefill -@ 2 --delta=cut.akv -o delta.akv full.tok
        t_sh 0 'cat cut.akv delta.akv | akv-gen -n 12 --json | jq -c "[.text, .tokens]" >other.json'
        t_same cold.json other.json
        # from the store: the snapshot of a restored run is the cold one
        rm -rf store
        t_sh 0 'akv-pin -q -s store base <cut.akv'
        t_sh 0 'akv-restore -s store full.tok | akv-prefill >other.akv'
        t_same cold.akv other.akv
        t_sh 0 'akv-restore -s store full.tok | akv-gen -n 12 --json --stats=stats | jq -c "[.text, .tokens]" >other.json'
        t_same cold.json other.json
        t_is "$(tail -n 1 stats | jq .cached_tokens)" "$cut" "cached_tokens restored at $cut"
    done
    # published as it fills, then found again
    t_sh 0 'akv-prefill -s store2 --save full.tok >other.akv'
    t_same cold.akv other.akv
    t_sh 0 'akv-prefill -s store2 full.tok >other.akv'
    t_same cold.akv other.akv
    t_sh 0 'akv-gen -s store2 --save -n 12 --json full.tok | jq -c "[.text, .tokens]" >other.json'
    t_same cold.json other.json
}

printf '%s' "$text" >text
if t_begin "a tiny model: every road gives the same bytes, restored at each cut from 1 to 130" tiny jq zstd; then
    # shellcheck disable=SC2046 # a list of numbers
    all_roads "$TINY" scalar $(seq 1 130)
fi
if t_begin "SmolLM2: every road gives the same bytes" smol jq zstd; then
    all_roads "$SMOL" scalar 1 3 63 64 65 100 127 128 129
fi
t_end
