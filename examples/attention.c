/* Attention on your own buffers: two sequences of different length, two heads, causal, forward and backward.
 *
 *     cc attention.c $(pkg-config --cflags --libs qkv) -lm && ./a.out
 */
#include <math.h>
#include <stdio.h>

#include <qkv.h>

enum { ROWS = 5, HEADS = 2, DIM = 4, WIDTH = HEADS * DIM };

int main(void) {
    qkv_ctx *ctx;
    char message[256];
    if (qkv_ctx_create(NULL, &ctx, message, sizeof message) != QKV_OK) {
        fprintf(stderr, "%s\n", message);
        return 1;
    }

    /* q, k and v as a fused projection leaves them: side by side in the rows of one buffer. */
    float qkv[ROWS][3][WIDTH], dqkv[ROWS][3][WIDTH], out[ROWS][WIDTH], dout[ROWS][WIDTH], lse[HEADS][ROWS];
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < WIDTH; j++) {
            qkv[i][0][j] = sinf((float)(i + 2 * j));
            qkv[i][1][j] = cosf((float)(3 * i + j));
            qkv[i][2][j] = (float)(i + 1);
            dout[i][j] = 1.0f;
        }

    const int64_t offset[] = {0, 3, ROWS}; /* rows 0-2 are the first sequence, rows 3-4 the second: no padding */
    qkv_attention a;
    qkv_attention_init(&a);
    a.sequences = 2;
    a.q_offset = offset;
    a.heads = HEADS;
    a.dim = DIM;
    a.q_row = a.k_row = a.v_row = 3 * WIDTH;
    a.span = (qkv_span){-1, 0}; /* any number of neighbours to the left, none to the right: causal */

    qkv_status status = qkv_attention_forward(ctx, &a, qkv[0][0], qkv[0][1], qkv[0][2], out[0], lse[0]);
    if (status == QKV_OK)
        status = qkv_attention_backward(ctx, &a, qkv[0][0], qkv[0][1], qkv[0][2], out[0], lse[0], dout[0], dqkv[0][0], dqkv[0][1],
                                        dqkv[0][2]);
    if (status != QKV_OK) {
        fprintf(stderr, "%s: %s\n", qkv_status_name(status), qkv_message(ctx));
        qkv_ctx_free(ctx);
        return 1;
    }

    printf("%lld pairs of a query and a key it sees\n", (long long)qkv_attention_pairs(&a));
    for (int i = 0; i < ROWS; i++) printf("row %d: out %.4f  log-sum-exp %.4f  dv %.4f\n", i, out[i][0], lse[0][i], dqkv[i][2][0]);
    qkv_ctx_free(ctx);
    return 0;
}
