/*
 * crore_plugin.h: what a plugin of crore is.
 *
 * A plugin is a dynamic library that exports one function, `crore_plugin_v1`, which gives a table
 * of functions. crore loads it into a child process of its own and never into the server: a plugin
 * that crashes or hangs costs the job that it was running, and nothing else.
 *
 *   cc -shared -fPIC -O2 -I sdks/plugin -o hello.so sdks/plugin/examples/hello.c
 *
 * The version of this interface stands in the name of the symbol and in the table. What is here
 * never changes; another version would be another symbol beside this one.
 *
 * Who calls what, and when
 *
 *   crore_plugin_v1   once, when the library is loaded
 *   name              once, after that
 *   create            once for each child process, before its first job
 *   run               once for each job; never two at a time
 *   free_result       once after each run, whatever run returned
 *   cancel            from another thread while run is under way, at most once for each run
 *   destroy           once, when the child process ends in peace; never after a crash or a kill
 *
 * A pooled runner keeps its child process, and so one instance runs many jobs, one after another.
 *
 * Standard input is empty. What a plugin prints to standard output or standard error becomes lines
 * of the job's log.
 */
#ifndef CRORE_PLUGIN_H
#define CRORE_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. */
#define CRORE_PLUGIN_ABI 1u

/* What a run returns. */
#define CRORE_OK 0u    /* it went well: `items` holds what came out */
#define CRORE_AGAIN 1u /* it may go better next time: the job is retried as its policy says */
#define CRORE_OTHER 2u /* it failed, and would again: the job is not retried */
#define CRORE_FATAL 3u /* it cannot be run at all: a wrong argument, a wrong set-up */

/* Bytes that are lent: whoever receives them reads `len` bytes at `data`, does not write there and
 * does not free them. `data` may be null if `len` is 0. */
typedef struct crore_bytes {
    const uint8_t *data;
    uint64_t len;
} crore_bytes;

/* Bytes that the plugin made and owns until its `free_result` is called. `data` may be null if
 * `len` is 0. */
typedef struct crore_buffer {
    uint8_t *data;
    uint64_t len;
} crore_buffer;

/* What a run gives. crore owns the structure itself and hands it over filled with zeros; what the
 * pointers in it lead to is the plugin's, which allocates it in `run` and frees it in
 * `free_result`. crore copies everything before it calls `free_result`, and keeps no pointer. */
typedef struct crore_result {
    crore_buffer *items; /* the first of `count` items; may be null if `count` is 0 */
    uint64_t count;      /* how many: none, one or many */
    crore_buffer error;  /* what went wrong, in UTF-8 without a trailing zero; read unless CRORE_OK */
} crore_result;

/* What surrounds a run. crore owns it; it is valid until the call that it was given to returns.
 * Its functions may be called from any thread until then, with `host` as their first argument. */
typedef struct crore_context {
    void *host; /* crore's own; only to be passed on */
    /* Not 0 once the run is to stop: it was cancelled, its time is over, or crore is going down.
     * A run that does not return some seconds after that is killed with its process. */
    uint32_t (*is_cancelled)(void *host);
    /* Says a line of the job's log. `text` is lent for the call, in UTF-8. */
    void (*log)(void *host, crore_bytes text);
} crore_context;

/* The table. The plugin owns it, and it stays valid and unchanged as long as the library is
 * loaded. Only `cancel` may be null. */
typedef struct crore_plugin {
    /* CRORE_PLUGIN_ABI of the header that the plugin was built with. */
    uint32_t abi;

    /* What handlers may call the plugin, besides the name of its file. UTF-8, lent for as long as
     * the library is loaded. */
    crore_bytes (*name)(void);

    /* Makes an instance, which the plugin owns until `destroy`, and which crore only passes on.
     * Null if it cannot: jobs then fail as CRORE_FATAL; `context->log` may say why. A plugin that
     * keeps nothing returns any other address. */
    void *(*create)(const crore_context *context);

    /* Runs a job. `argument` is the job's payload, lent until this returns; `result` see above.
     * Returns one of the words above; any other number counts as CRORE_OTHER. */
    uint32_t (*run)(void *instance, crore_bytes argument, const crore_context *context,
                    crore_result *result);

    /* May be null. The run that is under way is to stop: called from another thread than `run`,
     * for plugins that wait for something and cannot ask `is_cancelled` meanwhile. */
    void (*cancel)(void *instance);

    /* Frees an instance. */
    void (*destroy)(void *instance);

    /* Frees what `run` put into a result. Called exactly once for each run, also if it failed; the
     * pointers are as `run` left them. */
    void (*free_result)(crore_result *result);
} crore_plugin;

/* The one function that a plugin exports. The table is the plugin's; crore does not free it. */
const crore_plugin *crore_plugin_v1(void);

#ifdef __cplusplus
}
#endif

#endif
