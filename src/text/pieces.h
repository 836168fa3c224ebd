/* Pre-tokenisation: where a text may not be merged across.
 *
 * A piece is one of
 *   - a word: letters with their marks; an apostrophe between two letters belongs to it (as in UAX #29, rule WB6);
 *     Han, Kana, Thai and other scripts without spaces are letters, so such a piece can be long;
 *   - one to three digits;
 *   - a run of anything else that is not white space (punctuation, emoji, controls, invalid bytes);
 *   each with the one space (U+0020) before it, if there is one; or
 *   - a run of white space, without the space that the next piece takes.
 * Marks and joiners (U+200C, U+200D) never start a new piece. A run is cut after QKV_PIECE_LIMIT bytes. */
#ifndef QKV_TEXT_PIECES_H
#define QKV_TEXT_PIECES_H

#include <stdint.h>

enum { QKV_PIECE_LIMIT = 1 << 20 };

/* End of the piece that begins at text[begin]; begin < length. */
int64_t qkv_piece_end(const char *text, int64_t length, int64_t begin);

#endif
