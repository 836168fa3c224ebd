/* Where a text is cut into segments, for encoders that read it segment by segment.
 *
 *   words      a run of anything but white space, with the white space before it; of scripts without spaces (text/words.h) each
 *              character
 *   sentences  ends
 *                - after one of . ! ? (and closing quotes and brackets that follow it) where white space comes next;
 *                - after one of U+3002, U+FF01, U+FF1F (and the same), whatever comes next;
 *                - where white space has a line break or a tab in it (the tab parts the two texts of a pair).
 *              The white space is the beginning of the next sentence. Nothing is known of abbreviations: "Mr. Smith" is cut in two.
 *   tokens     every `limit` tokens
 *
 * Segments are of whole tokens: one that reaches over a cut belongs to the segment in which it begins. Whatever is longer than
 * `limit` tokens is cut there. */
#ifndef QKV_TEXT_SEGMENTS_H
#define QKV_TEXT_SEGMENTS_H

#include "qkv/model.h"

/* Writes the numbers of tokens of the segments of a text, each 1 .. limit, in order, and returns how many there are: at most
 * `count`. `tokens` are of `text`, ascending; some of its end may be missing. */
int64_t qkv_segments_of(qkv_segmentation kind, int64_t limit, const char *text, int64_t length, const qkv_token *tokens,
                        int64_t count, int32_t *sizes);

#endif
