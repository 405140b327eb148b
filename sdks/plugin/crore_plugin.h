/*
 * crore_plugin.h: the C interface of crore plugins.
 *
 * A plugin is a dynamic library that exports one function, `crore_plugin_v1`, which returns a table
 * of functions. crore loads it into a separate child process, never into the server: a crash or a
 * hang costs only the job that was running.
 *
 *   cc -shared -fPIC -O2 -I sdks/plugin -o hello.so sdks/plugin/examples/hello.c
 *
 * The version of this interface is part of the symbol's name and of the table. This version never
 * changes; a new version would be a second symbol in addition to this one.
 *
 * When crore calls each function
 *
 *   crore_plugin_v1   once, when the library is loaded
 *   name              once, after that
 *   create            once for each child process, before its first job
 *   run               once for each job; never two at a time
 *   free_result       once after each run, whatever run returned
 *   cancel            from another thread during a run, at most once for each run
 *   destroy           once, when the child process exits normally; never after a crash or a kill
 *
 * A pooled runner reuses its child process: one instance then runs many jobs, one after another.
 *
 * Standard input is empty. Lines that a plugin prints to standard output or standard error go to the
 * job's log.
 */
#ifndef CRORE_PLUGIN_H
#define CRORE_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. */
#define CRORE_PLUGIN_ABI 1u

/* Status codes of a run. */
#define CRORE_OK 0u    /* success: `items` holds the output */
#define CRORE_AGAIN 1u /* temporary failure: the job's retry policy applies */
#define CRORE_OTHER 2u /* permanent failure: the job is not retried */
#define CRORE_FATAL 3u /* the job cannot run at all: wrong argument or configuration */

/* Borrowed bytes: the receiver may read `len` bytes at `data`, and must not write or free them.
 * `data` may be null if `len` is 0. */
typedef struct crore_bytes {
    const uint8_t *data;
    uint64_t len;
} crore_bytes;

/* Bytes that the plugin allocates and owns until its `free_result` is called. `data` may be null if
 * `len` is 0. */
typedef struct crore_buffer {
    uint8_t *data;
    uint64_t len;
} crore_buffer;

/* The result of a run. crore owns the structure itself and passes it filled with zeros. The plugin
 * owns the memory behind its pointers: it allocates it in `run` and frees it in `free_result`. crore
 * copies everything before it calls `free_result`, and keeps no pointer. */
typedef struct crore_result {
    crore_buffer *items; /* the first of `count` items; may be null if `count` is 0 */
    uint64_t count;      /* number of items; may be 0 */
    crore_buffer error;  /* message, UTF-8 without a trailing zero; read unless CRORE_OK */
} crore_result;

/* The context of a run. crore owns it; it is valid until the call that received it returns. Until
 * then its functions may be called from any thread, with `host` as their first argument. */
typedef struct crore_context {
    void *host; /* private data of crore; pass it on unchanged */
    /* Not 0 once the run must stop: the job was cancelled, its timeout passed, or crore is shutting
     * down. A run that does not return within the grace period is killed with its process. */
    uint32_t (*is_cancelled)(void *host);
    /* Writes a line to the job's log. `text` is UTF-8, lent for the call. */
    void (*log)(void *host, crore_bytes text);
} crore_context;

/* The function table. The plugin owns it, and it must stay valid and unchanged while the library is
 * loaded. Only `cancel` may be null. */
typedef struct crore_plugin {
    /* CRORE_PLUGIN_ABI of the header that the plugin was built with. */
    uint32_t abi;

    /* Returns a name that handlers may use, besides the name of the file. UTF-8, lent while the
     * library is loaded. */
    crore_bytes (*name)(void);

    /* Creates an instance, which the plugin owns until `destroy`; crore only passes it on. Returns
     * null on failure: jobs then fail with CRORE_FATAL, and `context->log` may report why. A plugin
     * without state returns any other address. */
    void *(*create)(const crore_context *context);

    /* Runs a job. `argument` is the job's payload, lent until this returns; for `result` see above.
     * Returns one of the status codes above; any other number counts as CRORE_OTHER. */
    uint32_t (*run)(void *instance, crore_bytes argument, const crore_context *context,
                    crore_result *result);

    /* Asks the current run to stop. May be null. Called from another thread than `run`, for plugins
     * that block and cannot poll `is_cancelled`. */
    void (*cancel)(void *instance);

    /* Frees an instance. */
    void (*destroy)(void *instance);

    /* Frees the memory that `run` put into a result. Called exactly once for each run, even if it
     * failed; the pointers are as `run` left them. */
    void (*free_result)(crore_result *result);
} crore_plugin;

/* The only function that a plugin exports. The plugin owns the table; crore does not free it. */
const crore_plugin *crore_plugin_v1(void);

#ifdef __cplusplus
}
#endif

#endif
