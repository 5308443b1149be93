/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the NS1 provider share: records of its API in one canonical form, and steered
 * domains as such records.
 *
 * A steered record is a list of answers, each in one NS1 *region*, and a chain of filters that
 * every query passes.  Our fence comes first, then status, priority and weight:
 *
 *   netfence_prefix -> netfence_asn -> geofence_country -> geofence_regional ->
 *   select_first_region -> up -> priority -> weighted_shuffle -> select_first_n
 *
 * One of our regions becomes one NS1 region for each kind of atom (and prefix length), and these
 * come in the order of how specific they are: select_first_region takes the first that is left.
 * The order of NS1 regions matters therefore, that of answers in one does not.
 *
 * What is written is all there is: names of endpoints and regions, levels and weights as configured
 * are in the notes, so that the domain can be told from the record alone.
 *
 * Not for use outside of tools/providers/ns1*.c.
 */
#ifndef SLUICE_TOOLS_PROVIDERS_NS1_PRIVATE_H
#define SLUICE_TOOLS_PROVIDERS_NS1_PRIVATE_H

#include "tools/providers/provider.h"

enum { NS1_NOTE_MAX = 256, NS1_LIST_MAX = 1000 };

/* ---- records (ns1_record.c) ----------------------------------------------------------------- */

/*
 * A record of the API ("ttl", "answers", "filters", "regions", "use_client_subnet") in canonical
 * form, so that equal JSON is equal behaviour: codes in upper case, prefixes as RFC 4632 and RFC
 * 5952 write them, sorted lists, numbers and truths that came as text, no keys with neutral values.
 * Keys that we do not know and that are not neutral stay, in "more".
 *
 * A record without filters, regions and meta is a plain RRset: {"ttl", "values"}.  Else
 * {"ttl", "subnet", "filters": [...], "order": [regions], "regions": {...}, "answers": [...]}.
 *
 * A new reference; NULL if it is none of that (or no memory).  `record` is hostile.
 */
json_t *ns1_canonical(const char *type, const json_t *record);

/* The same of an item in a zone's list, whose answers are texts ("short_answers"). */
json_t *ns1_canonical_short(const char *type, const json_t *item);

/* The body of a PUT or POST that makes a canonical record; lists that are empty are written, so
 * that nothing of an older record is left.  A new reference, or NULL without memory. */
json_t *ns1_wire(const char *zone, const char *name, const char *type, const json_t *canonical);

/* A digest's text of any document, without regard to the order of lists; malloc'd or NULL. */
char *ns1_sorted_text(const json_t *document);

/* True for null, false, 0, "" and empty lists and objects: what an absent key means too. */
bool ns1_is_neutral(const json_t *value);

/* Parts of an answer from presentation form, and back (malloc'd or NULL). */
json_t *ns1_answer_parts(const char *type, const char *value);
char *ns1_answer_text(const char *type, const json_t *parts);

/* ---- compiler (ns1_compile.c, ns1_decompile.c) ---------------------------------------------- */

/* The canonical record of one type; NULL with an error.  Pure.  `mark` is in the notes. */
json_t *ns1_compile_type(const char *provider, const char *mark,
                         const struct provider_domain *domain, enum steer_type type,
                         struct provider_error *error);

void ns1_judge(const struct provider_domain *domain, struct provider_fidelity *fidelity);

/* Whose mark the record's notes carry: malloc'd; NULL: nobody's. */
char *ns1_owner(const json_t *canonical);

/* provider_kind's decompile(). */
json_t *ns1_decompile(const char *provider, const char *mark,
                      const struct provider_object *const *objects, size_t count,
                      struct provider_error *error);

#endif
