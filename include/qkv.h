/* qkv: self-attention in C. This header brings in the whole public interface. */
#ifndef QKV_H
#define QKV_H

#include "qkv/base.h"
#include "qkv/attention.h"
#include "qkv/options.h"
#include "qkv/output.h"
#include "qkv/tokenizer.h"
#include "qkv/data.h"
#include "qkv/model.h"
#include "qkv/classify.h"
#include "qkv/machine.h"
#include "qkv/bench.h"
#include "qkv/compare.h"
#include "qkv/flops.h"

#endif
