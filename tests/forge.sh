# Streams with other heads than a tool would write; for tests that source this after lib.sh.

# bytes HEX: those bytes.
bytes() {
    local hex=$1
    while [ -n "$hex" ]; do
        printf '%b' "\\x${hex:0:2}"
        hex=${hex:2}
    done
}
# patch FILE OFFSET: overwrite there with standard input.
patch() {
    dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
# offset FILE TEXT: where the text begins.
offset() {
    LC_ALL=C grep -aobF -e "$2" "$1" | head -n 1 | cut -d : -f 1
}

# forge IN OUT OLD NEW: a stream whose head has another ingredient, of equal length, with the right root and checksum for it.
forge() {
    cp "$1" "$2"
    printf '%s' "$4" | patch "$2" "$(offset "$2" "$3")"
    local end root sum
    end=$((8 + 0x$(od -An -v -tx1 -j 4 -N 4 "$1" | tr -d ' \n' | sed -E 's/(..)(..)(..)(..)/\4\3\2\1/')))
    root=$(head -c $((end - 8)) "$2" | tail -c +97 | sha256sum | cut -c 1-64)
    bytes "$root" | patch "$2" 36
    sum=$(head -c $((end - 8)) "$2" | tail -c +9 | xxhsum -H1 | sed -E 's/^.*([0-9a-f]{16}).*$/\1/; s/(..)(..)(..)(..)(..)(..)(..)(..)/\8\7\6\5\4\3\2\1/')
    bytes "$sum" | patch "$2" $((end - 8))
}

# object STORE PAGE: the file of that full page, of the only chain.
object() {
    find "$1/objects" -type f | while read -r f; do
        akv-inspect --json "$f" | jq -se --argjson i "$2" 'any(.type == "P" and .index == $i and .n == 64)' >/dev/null && echo "$f"
    done
}
