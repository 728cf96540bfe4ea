# The fuzz targets over their seeds: what they hold to be true is true of every format that the tools write, and nothing crashes.
. "$(dirname "$0")/../lib.sh"

if t_begin "the tools make the seeds" tiny; then
    t_run 0 "$TOP/tests/fuzz/seeds" "$T/seeds"
fi

for t_source in "$TOP"/tests/fuzz/fuzz_*.c; do
    name=$(basename "$t_source" .c) name=${name#fuzz_}
    if t_begin "no seed of $name breaks its target" tiny "$AKV_BUILD/tests/fuzz_$name"; then
        t_run 0 "$AKV_BUILD/tests/fuzz_$name" "$T/seeds/$name"
        t_out '^[0-9]+ inputs$'
    fi
done

t_end
