/* overflow FROM TO: the model of FROM, its norms so large that every sum overflows, to TO. */
#include <string.h>

#include "kernels/pick.h"
#include "models/model.h"

int main(int argc, char **argv) {
    static qkv_ctx ctx;
    qkv_model *model;
    qkv_ctx_setup(&ctx, NULL);
    if (argc != 3 || qkv_kernels_pick(&ctx, NULL) != QKV_OK || qkv_model_load(&ctx, argv[1], &model) != QKV_OK) return 1;
    const qkv_reg *reg = qkv_classifier_reg(model->net);
    for (int64_t i = 0; i < reg->count; i++) {
        const qkv_param *p = &reg->params[i];
        const bool norm = strstr(p->name, "norm") && strstr(p->name, "weight");
        for (int64_t k = 0; norm && k < p->rows * p->cols; k++) model->weights[p->offset + k] = (real)3e38;
    }
    const qkv_status status = qkv_model_save(model, argv[2]);
    qkv_model_free(model);
    qkv_scratch_close(&ctx);
    return status == QKV_OK ? 0 : 1;
}
