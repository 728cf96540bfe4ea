# Streams and files with other bytes than a tool would write; for tests that source this after lib.sh.

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
# u32 FILE OFFSET: the number there.
u32() {
    od -An -tu4 -j "$2" -N 4 "$1" | tr -d ' '
}
# seal FILE FROM BYTES OFFSET: the checksum of that many bytes from there on stands at the offset.
seal() {
    local sum
    sum=$(tail -c +$(($2 + 1)) "$1" | head -c "$3" | xxhsum -H1 | sed -E 's/^.*([0-9a-f]{16}).*$/\1/; s/(..)(..)(..)(..)(..)(..)(..)(..)/\8\7\6\5\4\3\2\1/')
    bytes "$sum" | patch "$1" "$4"
}

# forge IN OUT OLD NEW: a stream whose head has another ingredient, of equal length, with the right root and checksum for it.
forge() {
    cp "$1" "$2"
    printf '%s' "$4" | patch "$2" "$(offset "$2" "$3")"
    local n
    n=$(u32 "$1" 4)
    bytes "$(tail -c +97 "$2" | head -c $((n - 96)) | sha256sum | cut -c 1-64)" | patch "$2" 36
    seal "$2" 8 $((n - 8)) "$n"
}

# object STORE PAGE: the file of that full page, of the only chain.
object() {
    find "$1/objects" -type f | while read -r f; do
        akv-inspect --json "$f" | jq -se --argjson i "$2" 'any(.type == "P" and .index == $i and .n == 64)' >/dev/null && echo "$f"
    done
}
