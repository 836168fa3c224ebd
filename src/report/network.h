/* A configuration in words. */
#ifndef QKV_REPORT_NETWORK_H
#define QKV_REPORT_NETWORK_H

#include "layers/layers.h"
#include "models/config.h"
#include "qkv/tokenizer.h"

enum { QKV_NETWORK_WORDS = 1600 }; /* characters that are always enough */

/* "2 layers, dim 64, 4 heads, ffn 256, window 64,64, positions rope (base 10000, 16 of 16 columns turned), pooling mean": what each
 * network has, and of the rest what is not usual. Numbers that 0 stands for are put in. The tokenizer, which may be NULL, knows the
 * names of tokens. */
void qkv_network_words(const qkv_config *c, const qkv_tokenizer *tokenizer, char text[QKV_NETWORK_WORDS]);

/* "dim 64, 4 heads, window 64,64": of an attention layer alone. */
void qkv_attention_words(const qkv_block_shape *s, const qkv_global_rule *globals, char text[QKV_NETWORK_WORDS]);

/* " of bilstm (peepholes), 32 units a direction"; nothing of a transformer. */
void qkv_cell_words(const qkv_config *c, char text[QKV_NETWORK_WORDS]);

#endif
