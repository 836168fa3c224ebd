/* The words of a text, for models that count them: each is known by a 64-bit hash of its letters in lower case.
 *
 * A run of letters, marks, digits and underscores is one word. Scripts that are written without spaces (Han, Hiragana, Katakana,
 * Thai, Lao, Khmer, Myanmar) give one word a character. So does every other visible character. White space and control characters
 * only separate. A byte that is not valid UTF-8 is U+FFFD. */
#ifndef QKV_TEXT_WORDS_H
#define QKV_TEXT_WORDS_H

#include <stdbool.h>
#include <stdint.h>

/* Writes the words' hashes, in order, and returns how many there are: at most one a byte, so `hash` needs `length` places.
 * beginning[*beginnings] are hashes of the first 4 letters of each word that has more, and of the first 6 of each that has more, other
 * than those of words: at most 2 for 7 bytes, so `length` places do. */
int64_t qkv_words(const char *text, int64_t length, uint64_t *hash, uint64_t *beginning, int64_t *beginnings);

/* Whether a code point is of those scripts. */
bool qkv_script_without_spaces(int32_t codepoint);

/* Whether a word is one character of a script without spaces. */
static inline bool qkv_word_is_character(uint64_t hash) { return hash & 1; }

#endif
