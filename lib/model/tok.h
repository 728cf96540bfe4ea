/*
 * Tokenizer: from the GGUF's own vocabulary, merges and pre-tokenizer name.
 * Immutable after opening; may be shared by threads (akv_tok_encode allocates its own scratch).
 */
#ifndef AKV_MODEL_TOK_H
#define AKV_MODEL_TOK_H

#include "base/buf.h"
#include "base/hash.h"
#include "model/gguf.h"

#define AKV_TOK_NONE UINT32_MAX /* "no such token" */

struct akv_tok;

/* A growing array of ids. Zero-initialise; free with akv_ids_release. */
struct akv_ids {
    uint32_t *v;
    size_t n, cap;
};
int akv_ids_push(struct akv_ids *ids, uint32_t id, struct akv_err *err);
void akv_ids_release(struct akv_ids *ids);

/*
 * Open from a GGUF, which must outlive the tokenizer. pre: overrides tokenizer.ggml.pre, or NULL; a file without that key counts
 * as "default", with a warning where it matters (not for SentencePiece vocabularies, which know no other). A missing, mistyped or
 * inconsistent tokenizer.* key: AKV_E_INPUT; an unknown tokenizer model or pre name: AKV_E_INCOMPAT with the name and the list of
 * those known. Harmless oddities (repeated tokens, merges that mean nothing, bos or eos outside the vocabulary, which then count as
 * absent) are joined by newlines in *warnings (malloc'd, NULL if none; may be NULL to ignore).
 * flags: AKV_TOK_DECODE_ONLY leaves out the tables for text, which are most of the time and memory: encoding is then AKV_E_USAGE, and
 * nothing is said about single merges or token texts.
 */
#define AKV_TOK_DECODE_ONLY 1u
int akv_tok_open(struct akv_tok **out, const struct akv_gguf *g, const char *pre, unsigned flags, char **warnings,
                 struct akv_err *err);
void akv_tok_free(struct akv_tok *t);

uint32_t akv_tok_n_vocab(const struct akv_tok *t);
uint32_t akv_tok_bos(const struct akv_tok *t); /* AKV_TOK_NONE when absent */
uint32_t akv_tok_eos(const struct akv_tok *t);
uint32_t akv_tok_unk(const struct akv_tok *t);
/*
 * Whether the id ends generation: tokenizer.ggml.{eos,eot,eom}_token_id, and the control tokens whose text is a well-known end
 * marker (list in tok_ends.c: <|im_end|>, <|eot_id|>, <end_of_turn>, <|endoftext|> ...). Of these, <|end|> does not count where
 * both <|return|> and <|call|> exist: there it only ends one message of a reply.
 */
bool akv_tok_is_eog(const struct akv_tok *t, uint32_t id);
const uint32_t *akv_tok_ends(const struct akv_tok *t, size_t *n); /* all such ids, eos first */
bool akv_tok_is_control(const struct akv_tok *t, uint32_t id);    /* token type control (3) */
bool akv_tok_add_bos(const struct akv_tok *t);                    /* what add_special would prepend */
bool akv_tok_add_eos(const struct akv_tok *t);                    /* and append */

/*
 * The tokenizer digest (design.md 4.1, 5): the SHA-256 of
 *   for each GGUF key that begins "tokenizer." and not "tokenizer.chat_template", in ascending byte order of the keys:
 *     field(key) field(value type in decimal) field(value)
 *   field("pre=" name)
 * field(b) is the length of b as u32 little-endian, then b. The value type is GGUF's number (8 string, 9 array ...). The value is
 * what stands in the file after that number: a string with its u64 length, an array with its u32 element type and u64 count.
 * name is the pre-tokenizer in use, as written in the file or given as an override. The first call does the work.
 */
const uint8_t *akv_tok_digest(const struct akv_tok *t);

/* The name of the pre-tokenizer in use. */
const char *akv_tok_pre(const struct akv_tok *t);

/* Recognise control tokens in the text; without it they are read as plain text. User-defined ones are always recognised. */
#define AKV_TOK_SPECIAL 1u
#define AKV_TOK_ADD_SPECIAL 2u /* add bos (and eos where the model says so) */
/*
 * The text goes on where other text ends that is encoded apart. Without it a SentencePiece tokenizer whose model says so
 * (tokenizer.ggml.add_space_prefix) puts a space before the text, as it does after every added token.
 */
#define AKV_TOK_CONTINUE 4u

/*
 * Append the ids of text to ids. Any bytes are accepted: a byte that is no valid UTF-8 becomes its byte token, and the text on
 * either side of it is encoded by itself. Bytes that the vocabulary cannot express are dropped as the reference does (a
 * SentencePiece vocabulary: become the unknown token, one for all in a row); their number is added to *n_lost (may be NULL).
 * Added tokens: at each position the longest wins. Time is O(n log n) at worst.
 * After an error ids is as before. Text of 4 GiB - 1 or more: AKV_E_INPUT.
 */
int akv_tok_encode(const struct akv_tok *t, const char *text, size_t len, unsigned flags, struct akv_ids *ids, size_t *n_lost,
                   struct akv_err *err);

/*
 * As akv_tok_encode, and offsets (grown alongside, may be NULL) receives for each token the byte offset in text where it starts.
 * Offsets never decrease. A bos stands at 0, an eos at len. Where the tokenizer normalises the text (NFC), a token's offset is
 * that of the character that its first character was made from.
 */
int akv_tok_encode_offsets(const struct akv_tok *t, const char *text, size_t len, unsigned flags, struct akv_ids *ids,
                           struct akv_ids *offsets, size_t *n_lost, struct akv_err *err);

/*
 * Append the exact bytes of the tokens, a space that was put before the text among them; may be invalid UTF-8 at the ends.
 * skip_control leaves control tokens out.
 * An id >= n_vocab: AKV_E_INPUT, and out is as before.
 */
int akv_tok_decode(const struct akv_tok *t, const uint32_t *ids, size_t n, bool skip_control, struct akv_buf *out,
                   struct akv_err *err);

/* The id whose text is exactly this (control and user-defined tokens), or AKV_TOK_NONE. */
uint32_t akv_tok_find(const struct akv_tok *t, const char *text, size_t len);

#endif
