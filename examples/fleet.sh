#!/bin/sh
# Prepare an anchor in one place and use it in another: what is missing there is copied, verified without a model, and restored.
#
#   examples/fleet.sh MODEL HERE THERE SYSTEM.txt
#
# HERE and THERE are directories; a network would put ssh, rsync or object storage between them. The answer to a question is
# computed cold, then from the anchor that was carried over: they are the same, token for token.
set -eu
umask 077 # tar makes the directories above a file with it, and a store that others may write to is not used
[ $# -eq 4 ] || {
    echo "usage: examples/fleet.sh MODEL HERE THERE SYSTEM.txt" >&2
    exit 2
}
model=$1 here=$2 there=$3 system=$4
export AKV_MODEL="$model"
mkdir -p "$here" "$there"

chat() {
    jq -n --rawfile system "$system" --arg question "$1" \
        '{messages: [{role: "system", content: $system}, {role: "user", content: $question}], temperature: 0, max_tokens: 16}'
}

# 1. Prepare: the KV of the system text, under a name.
chat 'anything' | akv-tokenize | akv-split --prefix=system | akv-prefill | akv-pin -q -s "$here/store" agent

# 2. What it consists of. Sign this file (ssh-keygen -Y sign, signify, gpg): it names every byte.
akv-pin -s "$here/store" --manifest agent >"$here/agent.sha256"

# 3. Copy what is missing, and the pin, which alone may change; it comes last in the list, after its pages. tar keeps modes.
cp "$here/agent.sha256" "$there/agent.sha256"
mkdir -p "$there/store"
cut -c 67- "$there/agent.sha256" | while IFS= read -r file; do
    case $file in refs/*) ;; *) [ ! -e "$there/store/$file" ] || continue ;; esac
    printf '%s\n' "$file"
done >"$there/missing"
(cd "$here/store" && tar -cf - --files-from -) <"$there/missing" | (cd "$there/store" && tar -xpf -)
echo "copied $(wc -l <"$there/missing") of $(wc -l <"$there/agent.sha256") files"

# 4. Verify on arrival, without a model: that it is what was signed, and that it is whole.
(cd "$there/store" && sha256sum -c --quiet) <"$there/agent.sha256"
akv-pin -s "$there/store" --verify

# 5. Use it.
chat 'What is the weather like?' | akv-tokenize >"$there/question.tok"
akv-gen --json "$there/question.tok" | jq -c '[.text, .tokens]' >"$there/cold.json"
rm -f "$there/stats.json" # it is added to
akv-restore -s "$there/store" "$there/question.tok" | akv-gen --json --stats="$there/stats.json" | jq -c '[.text, .tokens]' >"$there/warm.json"
jq -r '"restored \(.cached_tokens) of \(.prompt_tokens) tokens"' "$there/stats.json"
cmp "$there/cold.json" "$there/warm.json"
echo "the same tokens"
