#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* affinity */
#endif
#include "base/par.h"

#ifdef QKV_THREADS
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/cpu.h"

/* Before a thread goes to sleep it looks again and again for some ten microseconds, longer than the gap between two calls of a
 * training step, and then for a millisecond whenever no other program wants the processor, longer than the last chunk of a
 * call. To sleep and be woken costs more, and the system may wake a thread where another one is working. */
enum { SPIN = 1500, MOST_WORKERS = 1023 };
static const double PATIENCE = 1e-3;

static void spin_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __asm__ volatile("pause");
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Chunks not yet handed out, as one number: whether they go in order (1 bit), how many threads the job may use (10), the first of
 * them (26), how many they are (26). Whoever takes one off holds a chunk of the job, and the job's fields stay as they are until
 * that is reported done. */
typedef struct share {
    _Alignas(64) _Atomic uint64_t left;
} share;
enum { SHARE_BITS = 26, MOST_CHUNKS = (1 << SHARE_BITS) - 1 };

struct qkv_par_pool {
    _Alignas(64) _Atomic uint64_t generation; /* of the job, changed when its chunks are there to be taken */
    _Alignas(64) _Atomic int64_t done; /* chunks */
    _Alignas(64) qkv_par_fn *fn;
    void *arg;
    int64_t first, total; /* chunks first .. first+total-1 */
    _Atomic int shares;   /* that have any */
    bool busy;
    _Alignas(64) pthread_mutex_t lock;
    pthread_cond_t work, finished;
    _Atomic int sleepers;
    _Atomic bool caller_sleeps, closing;
    int workers;
    share share[MOST_WORKERS + 1];
    pthread_t worker[MOST_WORKERS];
    int away_from; /* the processor that the workers keep off, -1: none */
#ifdef __linux__
    cpu_set_t allowed; /* when the pool was made */
#endif
};

typedef struct worker_start {
    struct qkv_par_pool *pool;
    int thread;
} worker_start;

static uint64_t make_left(bool in_order, int threads, int64_t next, int64_t count) {
    return (uint64_t)in_order << 62 | (uint64_t)(threads - 1) << 2 * SHARE_BITS | (uint64_t)next << SHARE_BITS | (uint64_t)count;
}

/* One chunk of a share, if one is left for this thread: the owner's from its begin, others' from its end. -1: none. */
static int64_t take(share *s, int thread, bool owner) {
    uint64_t left = atomic_load_explicit(&s->left, memory_order_acquire), rest;
    int64_t next, count;
    bool first;
    do {
        first = owner || left >> 62;
        next = (int64_t)(left >> SHARE_BITS & MOST_CHUNKS);
        count = (int64_t)(left & MOST_CHUNKS);
        if (count == 0 || thread > (int)(left >> 2 * SHARE_BITS & 1023)) return -1;
        rest = first ? left + ((uint64_t)1 << SHARE_BITS) - 1 : left - 1;
    } while (!atomic_compare_exchange_weak_explicit(&s->left, &left, rest, memory_order_acq_rel, memory_order_acquire));
    return first ? next : next + count - 1;
}

/* Runs what is left for this thread: its own share in order, then the ends of the others'. Where there is one share for all, all
 * take its chunks in order. */
static void run(struct qkv_par_pool *p, int thread) {
    const int shares = atomic_load(&p->shares);
    int64_t ran = 0, chunk;
    for (int i = 0; i < shares; i++) {
        share *s = &p->share[(thread + i) % shares];
        while ((chunk = take(s, thread, i == 0)) >= 0) {
            p->fn(p->arg, p->first + chunk, thread);
            ran++;
        }
    }
    if (ran == 0) return;
    const int64_t total = p->total;
    if (atomic_fetch_add(&p->done, ran) + ran == total && atomic_load(&p->caller_sleeps)) {
        pthread_mutex_lock(&p->lock);
        pthread_cond_signal(&p->finished);
        pthread_mutex_unlock(&p->lock);
    }
}

/* False when it was not so for long. */
static bool wait_awake(struct qkv_par_pool *p, bool (*is_so)(struct qkv_par_pool *p, uint64_t value), uint64_t value) {
    for (int i = 0; i < SPIN; i++) {
        if (is_so(p, value)) return true;
        spin_pause();
    }
    const double end = qkv_now() + PATIENCE;
    do {
        if (is_so(p, value)) return true;
        sched_yield();
    } while (qkv_now() < end);
    return is_so(p, value);
}

static bool another_job(struct qkv_par_pool *p, uint64_t old) {
    return atomic_load_explicit(&p->generation, memory_order_acquire) != old;
}

/* Until there is another job than that of `old`. */
static void wait_for_work(struct qkv_par_pool *p, uint64_t old) {
    if (wait_awake(p, another_job, old)) return;
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->sleepers, 1);
    while (atomic_load(&p->generation) == old && !atomic_load(&p->closing)) pthread_cond_wait(&p->work, &p->lock);
    atomic_fetch_sub(&p->sleepers, 1);
    pthread_mutex_unlock(&p->lock);
}

static void *work(void *argument) {
    const worker_start start = *(worker_start *)argument;
    struct qkv_par_pool *p = start.pool;
    free(argument);
    while (!atomic_load(&p->closing)) {
        uint64_t now = atomic_load_explicit(&p->generation, memory_order_acquire);
        run(p, start.thread);
        wait_for_work(p, now);
    }
    return NULL;
}

/* Signals are the caller's affair: the workers block them all. */
static void start_workers(struct qkv_par_pool *p, int wanted) {
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before)) return;
    while (p->workers < wanted && p->workers < MOST_WORKERS) {
        worker_start *start = malloc(sizeof *start);
        if (!start) break;
        *start = (worker_start){p, p->workers + 1};
        if (pthread_create(&p->worker[p->workers], NULL, work, start)) {
            free(start);
            break;
        }
        p->workers++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Threads and what they share come from the system, as their stacks do, and not from the context's allocator: without memory
 * for them the caller works alone. */
static struct qkv_par_pool *pool_of(qkv_ctx *ctx, int threads) {
    struct qkv_par_pool *p = ctx->pool;
    if (!p) {
        if (!(p = aligned_alloc(64, (sizeof *p + 63) / 64 * 64))) return NULL;
        *p = (struct qkv_par_pool){.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .finished = PTHREAD_COND_INITIALIZER};
        p->away_from = -1;
#ifdef __linux__
        if (pthread_getaffinity_np(pthread_self(), sizeof p->allowed, &p->allowed)) CPU_ZERO(&p->allowed);
#endif
        ctx->pool = p;
    }
    if (p->workers < threads - 1) {
        start_workers(p, threads - 1);
        p->away_from = -1; /* the new ones do not know */
    }
    return p;
}

/* Linux likes to wake a thread where the waker runs, and then lets the two take turns there for milliseconds while another
 * processor idles. So workers may run anywhere but where the caller is about to work. With more threads than processors they may
 * run there too. */
static void keep_off_the_caller(struct qkv_par_pool *p, int threads) {
#ifdef __linux__
    int here = sched_getcpu();
    if (here < 0 || here >= CPU_SETSIZE || here == p->away_from || CPU_COUNT(&p->allowed) < threads || !CPU_ISSET(here, &p->allowed)) return;
    cpu_set_t others = p->allowed;
    CPU_CLR(here, &others);
    for (int i = 0; i < p->workers; i++) pthread_setaffinity_np(p->worker[i], sizeof others, &others);
    p->away_from = here;
#else
    (void)p, (void)threads;
#endif
}

static void publish(struct qkv_par_pool *p, int threads, bool in_order, int64_t first, int64_t total, qkv_par_fn *fn, void *arg) {
    p->fn = fn;
    p->arg = arg;
    p->first = first;
    p->total = total;
    atomic_store_explicit(&p->done, 0, memory_order_relaxed);
    const int shares = in_order ? 1 : threads <= p->workers ? threads : p->workers + 1;
    atomic_store_explicit(&p->shares, shares, memory_order_relaxed);
    for (int64_t t = 0, from = 0, to; t < shares; t++, from = to) {
        to = total * (t + 1) / shares;
        atomic_store_explicit(&p->share[t].left, make_left(in_order, threads, from, to - from), memory_order_release);
    }
    atomic_fetch_add(&p->generation, 1);
    if (atomic_load(&p->sleepers) == 0) return;
    keep_off_the_caller(p, threads);
    pthread_mutex_lock(&p->lock);
    if (total > threads) pthread_cond_broadcast(&p->work);
    else
        for (int64_t i = 1; i < total; i++) pthread_cond_signal(&p->work);
    pthread_mutex_unlock(&p->lock);
}

static bool all_done(struct qkv_par_pool *p, uint64_t total) {
    return (uint64_t)atomic_load_explicit(&p->done, memory_order_acquire) == total;
}

static void wait_for_rest(struct qkv_par_pool *p, int64_t total) {
    if (wait_awake(p, all_done, (uint64_t)total)) return;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->caller_sleeps, true);
    while (atomic_load(&p->done) != total) pthread_cond_wait(&p->finished, &p->lock);
    atomic_store(&p->caller_sleeps, false);
    pthread_mutex_unlock(&p->lock);
}

static bool run_on_pool(qkv_ctx *ctx, bool in_order, int64_t chunks, qkv_par_fn *fn, void *arg) {
    struct qkv_par_pool *p = pool_of(ctx, chunks < ctx->threads ? (int)chunks : ctx->threads);
    if (!p || p->busy || p->workers == 0) return false;
    p->busy = true;
    int threads = ctx->threads <= MOST_WORKERS ? ctx->threads : MOST_WORKERS + 1;
    for (int64_t first = 0; first < chunks;) {
        int64_t total = chunks - first < MOST_CHUNKS ? chunks - first : MOST_CHUNKS;
        publish(p, threads, in_order, first, total, fn, arg);
        run(p, 0);
        wait_for_rest(p, total);
        first += total;
    }
    p->busy = false;
    return true;
}

void qkv_par_close(qkv_ctx *ctx) {
    struct qkv_par_pool *p = ctx->pool;
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->closing, true);
    atomic_fetch_add(&p->generation, 1); /* for those that still spin */
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->workers; i++) pthread_join(p->worker[i], NULL);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->finished);
    free(p);
    ctx->pool = NULL;
}

void qkv_par_post(qkv_par_counter *counter, int64_t value) { __atomic_store_n(&counter->value, value, __ATOMIC_RELEASE); }

/* The chunk waited for is being run, but the system may have taken its thread off: then this one makes room. */
void qkv_par_wait(qkv_par_counter *counter, int64_t value) {
    for (int64_t i = 0; __atomic_load_n(&counter->value, __ATOMIC_ACQUIRE) < value; i++) {
        if (i < SPIN) spin_pause();
        else sched_yield();
    }
}

const char *qkv_par_kind(void) { return "threads"; }

#else
static bool run_on_pool(qkv_ctx *ctx, bool in_order, int64_t chunks, qkv_par_fn *fn, void *arg) {
    (void)ctx, (void)in_order, (void)chunks, (void)fn, (void)arg;
    return false;
}
void qkv_par_close(qkv_ctx *ctx) { (void)ctx; }
void qkv_par_post(qkv_par_counter *counter, int64_t value) { counter->value = value; }
void qkv_par_wait(qkv_par_counter *counter, int64_t value) { (void)counter, (void)value; } /* chunks run in order */
const char *qkv_par_kind(void) { return "no threads"; }
#endif

static void par(const qkv_ctx *ctx, bool in_order, int64_t chunks, qkv_par_fn *fn, void *arg) {
    /* The threads are no part of what the context promises not to change. */
    if (chunks > 1 && ctx->threads > 1 && run_on_pool((qkv_ctx *)(uintptr_t)ctx, in_order, chunks, fn, arg)) return;
    for (int64_t i = 0; i < chunks; i++) fn(arg, i, 0);
}

void qkv_par(const qkv_ctx *ctx, int64_t chunks, qkv_par_fn *fn, void *arg) { par(ctx, false, chunks, fn, arg); }
void qkv_par_in_order(const qkv_ctx *ctx, int64_t chunks, qkv_par_fn *fn, void *arg) { par(ctx, true, chunks, fn, arg); }
