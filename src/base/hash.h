/* Hashes: 64-bit for tables and splits, SHA-256 for checksums that must not collide by accident. */
#ifndef QKV_BASE_HASH_H
#define QKV_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* FNV-1a folded through the splitmix64 finalizer; the same on every machine, so splits by hash are stable. */
uint64_t qkv_hash64(const void *data, size_t size, uint64_t seed);

typedef struct qkv_sha256 {
    uint32_t h[8];
    uint64_t bytes;
    unsigned char block[64];
} qkv_sha256;
void qkv_sha256_start(qkv_sha256 *s);
void qkv_sha256_add(qkv_sha256 *s, const void *data, size_t size);
void qkv_sha256_end(qkv_sha256 *s, char hex[65]);

#endif
