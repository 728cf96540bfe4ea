/*
 * The pre-tokenizers known, by their GGUF names.
 *
 * \s is spelled out: it is Unicode's White_Space, which PCRE2's \s is not quite (U+180E), and must not follow its version.
 * Patterns that are searched for inside text must not rescan a run from each of its characters (see the white space at the end in
 * deepseek-llm), so that cutting stays linear.
 */
#include "model/tok_pre.h"

#define WS "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

/* White space: all but the last of a run before something else, else the run. */
#define SPACES "[" WS "]+(?![^" WS "])|[" WS "]+"
#define LINES "[" WS "]*[\\r\\n]+"
#define CLITICS "'s|'t|'re|'ve|'m|'ll|'d"

#define GPT2 CLITICS "| ?\\p{L}+| ?\\p{N}+| ?[^" WS "\\p{L}\\p{N}]+"

/* The family that GPT-4's first tokenizer began: numbers differ. */
#define WORDS "(?i:" CLITICS ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define SIGNS "| ?[^" WS "\\p{L}\\p{N}]+[\\r\\n]*|" LINES "|" SPACES

/* Words by case: capitals, then small letters; tail is what may follow. */
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(tail) "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" tail "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" tail "|"
#define CASED_SIGNS "| ?[^" WS "\\p{L}\\p{N}]+[\\r\\n/]*|" LINES "|" SPACES

/* Letters that have case, as the deepseek-llm tokenizer lists them. */
#define CASED_LETTERS                                                                                                              \
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}\\x{295}-\\x{2af}"               \
    "\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}"                 \
    "\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}"                   \
    "\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}"           \
    "\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}"                     \
    "\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}"                      \
    "\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}"           \
    "\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}"              \
    "\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}"             \
    "\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}"            \
    "\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}"           \
    "\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}"                      \
    "\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"

#define DIGITS_THEN_GPT2                                                                                                           \
    {                                                                                                                              \
        "\\p{N}", GPT2 "|" SPACES                                                                                                  \
    }
#define LLAMA3                                                                                                                     \
    {                                                                                                                              \
        WORDS "\\p{N}{1,3}" SIGNS                                                                                                  \
    }
#define QWEN2                                                                                                                      \
    {                                                                                                                              \
        WORDS "\\p{N}" SIGNS                                                                                                       \
    }
#define GPT4O                                                                                                                      \
    {                                                                                                                              \
        CASED("(?i:" CLITICS ")?") "\\p{N}{1,3}" CASED_SIGNS                                                                       \
    }

const struct akv_tokpre_row akv_tokpre_rows[] = {
    {"smollm", AKV_TOKPRE_WORDS, DIGITS_THEN_GPT2},
    {"starcoder", AKV_TOKPRE_WORDS, DIGITS_THEN_GPT2},
    {"refact", AKV_TOKPRE_WORDS, DIGITS_THEN_GPT2},
    {"codeshell", AKV_TOKPRE_WORDS, DIGITS_THEN_GPT2},
    {"gpt-2", AKV_TOKPRE_WORDS, {GPT2 "|" SPACES}},
    {"qwen2", AKV_TOKPRE_NFC | AKV_TOKPRE_WORDS, QWEN2},
    {"deepseek-r1-qwen", AKV_TOKPRE_NFC | AKV_TOKPRE_WORDS, QWEN2},
    {"llama-bpe", AKV_TOKPRE_IGNORE_MERGES | AKV_TOKPRE_ADD_BOS | AKV_TOKPRE_WORDS, LLAMA3},
    {"llama3", AKV_TOKPRE_IGNORE_MERGES | AKV_TOKPRE_ADD_BOS | AKV_TOKPRE_WORDS, LLAMA3},
    {"llama-v3", AKV_TOKPRE_IGNORE_MERGES | AKV_TOKPRE_ADD_BOS | AKV_TOKPRE_WORDS, LLAMA3},
    {"gpt-4o", AKV_TOKPRE_IGNORE_MERGES | AKV_TOKPRE_CASED, GPT4O},
    {"llama4", AKV_TOKPRE_IGNORE_MERGES | AKV_TOKPRE_CASED, GPT4O},
    {"tekken", AKV_TOKPRE_IGNORE_MERGES | AKV_TOKPRE_ADD_BOS | AKV_TOKPRE_CASED, {CASED("") "\\p{N}" CASED_SIGNS}},
    {"deepseek-v3",
     AKV_TOKPRE_WORDS,
     {"\\p{N}{1,3}", "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{30ff}]+",
      "[!-/:-@\\[-`{-~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" LINES "|" SPACES}},
    {"deepseek-llm",
     0,
     {"[\\r\\n]", "[" WS "]?[" CASED_LETTERS "]+",
      "[" WS "]?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+",
      "(?<![" WS "])[" WS "]++\\z", "[\\x{800}-\\x{9fa5}\\x{ac00}-\\x{d7ff}]+", "\\p{N}"}},
    {"default", 0, {"[\\p{P}$+<=>^~|]+", GPT2 "|[" WS "]+(?![^" WS "])", "\\p{N}+", "[0-9][0-9][0-9]"}},
    {0},
};
