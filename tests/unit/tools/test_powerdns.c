/* SPDX-License-Identifier: Apache-2.0 */
/* PowerDNS: the text of LUA records, the code for some models, zone documents, changes. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tools/providers/powerdns_private.h"
#include "tools/providers/powerdns_text.h"
#include "zones/domain_json.h"

TestSuite(powerdns);

/* Single quotes are written for double ones. */
static json_t *json_of(const char *text) {
  char *copy = strdup(text);
  json_error_t error;
  for (char *p = copy; *p; p++)
    if (*p == '\'')
      *p = '"';
  json_t *json = json_loads(copy, JSON_DECODE_ANY, &error);
  cr_assert(json, "%s: %s", copy, error.text);
  free(copy);
  return json;
}

/* ---- text ----------------------------------------------------------------------------------- */

static void check_quote(const char *text, const char *expected) {
  struct buf out;
  buf_init(&out);
  powerdns_quote(&out, text);
  cr_expect_str_eq(buf_text(&out), expected);
  buf_close(&out);
}

Test(powerdns, quotes) {
  check_quote("", "''");
  check_quote("192.0.2.1", "'192.0.2.1'");
  check_quote("a'b", "'a' .. string.char(39) .. 'b'");
  check_quote("\\\"]]", "string.char(92) .. string.char(34) .. string.char(93) .. string.char(93)");
  check_quote("\xff\n", "string.char(255) .. string.char(10)");
}

Test(powerdns, quotes_cut_long_strings) {
  char text[251];
  struct buf out;
  memset(text, 'a', 250);
  text[250] = '\0';
  buf_init(&out);
  powerdns_quote(&out, text);
  const char *p = buf_text(&out);
  cr_expect_eq(strlen(p), 250 + 2 * 3 + 4 * 2);
  for (const char *word = p; word && *word; word = strchr(word, ' ') ? strchr(word, ' ') + 1 : NULL)
    cr_expect_leq(strcspn(word, " "), 102);
  buf_close(&out);
}

static const char long_code[] =
    "local e = {{'192.0.2.1', '192.0.2.2'}, {'192.0.2.3'}} if netmask({'10.0.0.0/8', "
    "'::ffff:10.0.0.0/104'}) then return e[1] elseif continent({'eu', 'na', 'sa'}) then return "
    "e[2] "
    "elseif country({'ca', 'us', 'de', 'fr', 'no', 'se', 'fi'}) then return e[2] end return e[1]";

Test(powerdns, text_survives_the_trip) {
  char *content = powerdns_wrap("A", "{\"owner\":\"x]]'\"}", long_code);
  json_t *model;
  char type[POWERDNS_TYPE];
  cr_assert(content);
  cr_expect_eq(powerdns_unwrap(content, &model), POWERDNS_OURS);
  cr_expect_str_eq(json_string_value(json_object_get(model, "owner")), "x]]'");
  json_decref(model);
  cr_expect(powerdns_type(content, type));
  cr_expect_str_eq(type, "A");
  /* What PowerDNS and zone transfers ask for. */
  cr_expect_null(strpbrk(content, "\\\n"));
  size_t parts = 0;
  for (const char *p = strchr(content, '"'); p; p = strchr(p + strcspn(p, "\"") + 1, '"')) {
    p++;
    cr_expect_leq(strcspn(p, "\""), 255);
    parts++;
  }
  cr_expect_gt(parts, 1);
  free(content);
}

Test(powerdns, every_edit_is_seen) {
  char *content = powerdns_wrap("A", "{}", "return {'192.0.2.1'}");
  cr_assert(content);
  size_t len = strlen(content);
  for (size_t i = 0; i < len; i++) {
    json_t *model;
    char was = content[i];
    content[i] = was == 'x' ? 'y' : 'x';
    cr_expect_neq(powerdns_unwrap(content, &model), POWERDNS_OURS, "%zu: %s", i, content);
    json_decref(model);
    content[i] = '\0'; /* cut off */
    cr_expect_neq(powerdns_unwrap(content, &model), POWERDNS_OURS);
    json_decref(model);
    content[i] = was;
  }
  free(content);
}

Test(powerdns, without_a_model) {
  char *content = powerdns_wrap("CNAME", NULL, "return 'x.'");
  json_t *model;
  cr_assert(content);
  cr_expect_eq(powerdns_unwrap(content, &model), POWERDNS_OURS);
  cr_expect_null(model);
  free(content);
}

Test(powerdns, code_that_cannot_be_written) {
  char word[400];
  memset(word, 'a', sizeof word - 1);
  word[sizeof word - 1] = '\0';
  cr_expect_null(powerdns_wrap("A", NULL, word));
  cr_expect_null(powerdns_wrap("A", NULL, "return \"x\""));
  cr_expect_null(powerdns_wrap("A", NULL, "return '\\'"));
  cr_expect_null(powerdns_wrap("A", NULL, "return\n1"));
  char *large = malloc(POWERDNS_CONTENT_MAX + 2);
  for (size_t i = 0; i <= POWERDNS_CONTENT_MAX; i++)
    large[i] = i % 2 ? ' ' : 'a';
  large[POWERDNS_CONTENT_MAX + 1] = '\0';
  cr_expect_null(powerdns_wrap("A", NULL, large));
  free(large);
}

Test(powerdns, foreign_texts) {
  static const char *const texts[] = {"",
                                      "A",
                                      "A ",
                                      "A \"",
                                      "\"x\"",
                                      "A \"'192.0.2.1'\"",
                                      "A \";--[[ sluice\"",
                                      "A ;x",
                                      "A \\",
                                      "A \"a\"\"",
                                      "A \"\\\"\"",
                                      "A'x'",
                                      "TOOLONGTYPENAMEHERE \"x\""};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    json_t *model;
    cr_expect_eq(powerdns_unwrap(texts[i], &model), POWERDNS_FOREIGN, "%s", texts[i]);
  }
  json_t *model;
  cr_expect_eq(powerdns_unwrap("A \";--[[ sluice 1 \"", &model), POWERDNS_EDITED);
  cr_expect_eq(
      powerdns_unwrap("A \";--[[ sluice 1 00000000000000000000000000000000 - ]] return\"", &model),
      POWERDNS_EDITED);
}

/* ---- code ----------------------------------------------------------------------------------- */

static void check_code(const char *json, enum steer_type type, const char *health, bool pushed,
                       const char *expected) {
  char why[DOMAIN_JSON_WHY] = "";
  json_t *document = json_of(json);
  json_t *checks = health ? json_of(health) : NULL;
  struct steer_domain *steer = domain_json_decode(document, why);
  cr_assert(steer, "%s", why);
  struct provider_domain domain = {
      .steer = steer, .name = "cdn.e.test.", .health = checks, .pushed = pushed};
  struct powerdns_probe probe;
  struct buf code;
  buf_init(&code);
  powerdns_probe_find(&domain, &probe);
  powerdns_lua_code(&domain, type, !pushed && probe.possible ? &probe : NULL, &code);
  cr_expect_str_eq(buf_text(&code), expected);
  powerdns_probe_close(&probe);
  buf_close(&code);
  steer_domain_free(steer);
  json_decref(document);
  json_decref(checks);
}

#define HEAD "{'owner':'cdn.e.test.','ttl':30,'draw_per':'query',"
#define THREE                                                                                      \
  "'types':['A'],'endpoints':[{'name':'one','enabled':true,'addresses':['192.0.2.1']},"            \
  "{'name':'two','enabled':true,'addresses':['192.0.2.2','192.0.2.22']},"                          \
  "{'name':'spare','enabled':true,'addresses':['192.0.2.3']}],"
#define TABLE "local e = {{'192.0.2.1'}, {'192.0.2.2', '192.0.2.22'}, {'192.0.2.3'}} "
#define DRAW                                                                                       \
  "local function d(l) local w = {} for i, x in ipairs(l) do w[i] = {x[2], tostring(x[1])} end "   \
  "return e[tonumber(pickwrandom(w))] end "

Test(powerdns, code_without_a_choice) {
  check_code(HEAD "'answers':1," THREE
                  "'regions':[{'name':'global','atoms':['global'],'levels':[[['one',5]]]}]}",
             STEER_A, NULL, true, "local e = {{'192.0.2.1'}} return e[1]");
}

Test(powerdns, code_of_weights) {
  check_code(HEAD "'answers':1," THREE "'regions':[{'name':'global','atoms':['global'],"
                  "'levels':[[['one',3],['two',1]],[['spare',1]]]}]}",
             STEER_A, NULL, true, TABLE DRAW "return d({{1, 3}, {2, 1}})");
}

Test(powerdns, code_of_all_answers) {
  check_code(HEAD "'answers':2," THREE "'regions':[{'name':'global','atoms':['global'],"
                  "'levels':[[['one',3],['two',1]],[['spare',1]]]}]}",
             STEER_A, NULL, true, TABLE "return {'192.0.2.1', '192.0.2.2', '192.0.2.22'}");
}

Test(powerdns, code_of_the_fence) {
  check_code(HEAD "'answers':1," THREE
                  "'regions':[{'name':'g','atoms':['global'],'levels':[[['one',1]]]},"
                  "{'name':'a','atoms':['continent:eu','country:ca','country:us','net:10.0.0.0/8',"
                  "'asn:64500','subdivision:us-ny','subdivision:us-ca','subdivision:ca-qc'],"
                  "'levels':[[['two',1]]]},"
                  "{'name':'b','atoms':['net:10.1.0.0/16','net:2001:db8::/32','country:na'],"
                  "'levels':[[['spare',1]]]}]}",
             STEER_A, NULL, true,
             TABLE "if netmask({'2001:db8::/32'}) then return e[3] "
                   "elseif netmask({'10.1.0.0/16', '::ffff:10.1.0.0/112'}) then return e[3] "
                   "elseif netmask({'10.0.0.0/8', '::ffff:10.0.0.0/104'}) then return e[2] "
                   "elseif asnum({'64500'}) then return e[2] "
                   "elseif country('ca') and region({'qc'}) then return e[2] "
                   "elseif country('us') and region({'ca', 'ny'}) then return e[2] "
                   "elseif country({'ca', 'us'}) then return e[2] "
                   "elseif country({'na'}) then return e[3] "
                   "elseif continent({'eu'}) then return e[2] end return e[1]");
}

Test(powerdns, code_of_host_names) {
  check_code(HEAD "'answers':1,'types':['CNAME'],'endpoints':[{'name':'h','enabled':true,'host':"
                  "'a\\\\.b.example.'}],"
                  "'regions':[{'name':'global','atoms':['global'],'levels':[[['h',1]]]}]}",
             STEER_CNAME, NULL, true,
             "local e = {{'a' .. string.char(92) .. '.b.example.'}} return e[1]");
}

Test(powerdns, code_that_checks) {
  check_code(HEAD "'answers':1," THREE "'regions':[{'name':'global','atoms':['global'],"
                  "'levels':[[['one',3],['two',0]],[['spare',0]]]}]}",
             STEER_A,
             "{'one':{'type':'tcp','port':443,'timeout':1500},"
             "'two':{'type':'tcp','port':443,'timeout':1500},"
             "'spare':{'type':'tcp','port':443,'timeout':1500}}",
             false,
             TABLE DRAW
             "local function h(l, n) local a, s, u = {}, {}, {} for _, v in ipairs(l) do "
             "for _, x in ipairs(v) do for _, t in ipairs(e[x[1]]) do if not s[t] then s[t] = true "
             "a[#a + 1] = t end end end end for _, t in ipairs("
             "ifportup(443, a, {selector='all', backupSelector='all', timeout=2})"
             ") do u[t] = true end for _, v in ipairs(l) do local c, k, m = {}, {}, 0 "
             "for _, x in ipairs(v) do for _, t in ipairs(e[x[1]]) do if u[t] then c[#c + 1] = x "
             "m = m + x[2] break end end end for _, x in ipairs(c) do "
             "if m == 0 then k[#k + 1] = {x[1], 1} "
             "elseif x[2] > 0 then k[#k + 1] = {x[1], x[2]} end end "
             "if #k > 0 then return d(k, n) end end return e[l[1][1][1]] end "
             "return h({{{1, 3}}, {{3, 0}}}, 1)");
}

/* ---- zone documents and changes ------------------------------------------------------------- */

struct zone {
  struct provider_objects objects;
  json_t *document, *rrsets;
  bool secondary;
};

static bool read_zone(struct zone *zone, const char *text, struct provider_error *error) {
  zone->document = json_of(text);
  provider_objects_init(&zone->objects);
  return powerdns_read_document("dns-a", "e.test.", zone->document, &zone->objects, &zone->rrsets,
                                &zone->secondary, error);
}

static void close_zone(struct zone *zone) {
  provider_objects_close(&zone->objects);
  json_decref(zone->document);
  json_decref(zone->rrsets);
}

#define OURS "{'content':'" POWERDNS_COMMENT "','account':'sluice'}"
#define ZONE                                                                                       \
  "{'name':'e.test.','kind':'Native','rrsets':["                                                   \
  "{'name':'e.test.','type':'SOA','ttl':1,'records':[{'content':'x'}]},"                           \
  "{'name':'E.test.','type':'NS','ttl':60,'records':[{'content':'ns1.e.test.'}]},"                 \
  "{'name':'gone.e.test.','type':'LUA','ttl':0,'records':[],'comments':[]},"                       \
  "{'name':'cdn.e.test.','type':'A','ttl':60,'comments':[" OURS                                    \
  ",{'content':'hi','account':'ops'}],'records':[{'content':'192.0.2.1','disabled':false}]}]}"

Test(powerdns, zone_documents) {
  struct zone zone;
  struct provider_error error;
  cr_assert(read_zone(&zone, ZONE, &error), "%s", error.text);
  cr_assert_eq(zone.objects.count, 3);
  cr_expect_str_eq(zone.objects.items[0].key, "e.test./SOA");
  cr_expect(zone.objects.items[0].opaque);
  cr_expect_str_eq(zone.objects.items[1].key, "e.test./NS");
  cr_expect_null(zone.objects.items[1].owner);
  cr_expect_str_eq(zone.objects.items[2].key, "cdn.e.test./A");
  cr_expect_str_eq(zone.objects.items[2].owner, "sluice");
  cr_expect_not(zone.secondary);
  close_zone(&zone);
}

static json_t *patch(const struct zone *zone, const struct provider_change *changes, size_t count,
                     bool *lua) {
  struct provider_error error = {0};
  json_t *body = powerdns_patch("dns-a", "sluice", zone->rrsets, changes, count, lua, &error);
  cr_assert(body, "%s", error.text);
  return body;
}

static const char *part(const json_t *body, size_t i, const char *key) {
  return json_string_value(
      json_object_get(json_array_get(json_object_get(body, "rrsets"), i), key));
}

Test(powerdns, a_type_switch_deletes_first) {
  struct zone zone;
  struct provider_error error;
  struct provider_objects wanted;
  bool lua = false;
  cr_assert(read_zone(&zone, ZONE, &error));
  provider_objects_init(&wanted);
  char *content = powerdns_wrap("A", "{}", "return {'192.0.2.1'}");
  cr_assert(powerdns_add_lua(&wanted, "cdn.e.test.", "A", 30, content));
  struct provider_change change = {PROVIDER_UPDATE, &zone.objects.items[2], &wanted.items[0]};
  json_t *bodies = patch(&zone, &change, 1, &lua);
  const json_t *body = json_array_get(bodies, 0);
  cr_expect(lua);
  cr_assert_eq(json_array_size(bodies), 1);
  cr_assert_eq(json_array_size(json_object_get(body, "rrsets")), 2);
  cr_expect_str_eq(part(body, 0, "changetype"), "DELETE");
  cr_expect_str_eq(part(body, 0, "type"), "A");
  cr_expect_str_eq(part(body, 1, "changetype"), "REPLACE");
  cr_expect_str_eq(part(body, 1, "type"), "LUA");
  json_decref(bodies);
  free(content);
  provider_objects_close(&wanted);
  close_zone(&zone);
}

Test(powerdns, nothing_is_sent_that_is_there) {
  struct zone zone;
  struct provider_error error;
  struct provider_objects wanted;
  bool lua;
  cr_assert(read_zone(&zone, ZONE, &error));
  provider_objects_init(&wanted);
  cr_assert(provider_add_rrset(&wanted, "cdn.e.test.", "A", 60, json_pack("[s]", "192.0.2.1")));
  cr_assert(provider_add_rrset(&wanted, "cdn.e.test.", "A", 61, json_pack("[s]", "192.0.2.1")));
  struct provider_change change = {PROVIDER_UPDATE, &zone.objects.items[2], &wanted.items[0]};
  json_t *bodies = patch(&zone, &change, 1, &lua);
  cr_expect_eq(json_array_size(bodies), 0);
  json_decref(bodies);
  change.new = &wanted.items[1];
  bodies = patch(&zone, &change, 1, &lua);
  const json_t *rrset = json_array_get(json_object_get(json_array_get(bodies, 0), "rrsets"), 0);
  cr_expect_eq(json_integer_value(json_object_get(rrset, "ttl")), 61);
  cr_expect_eq(json_array_size(json_object_get(rrset, "comments")), 2);
  cr_expect_not(lua);
  json_decref(bodies);
  provider_objects_close(&wanted);
  close_zone(&zone);
}
