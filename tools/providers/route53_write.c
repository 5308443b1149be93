/* SPDX-License-Identifier: Apache-2.0 */
/* From changes and health checks to Route 53's XML. */
#include <libxml/xmlwriter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/providers/route53_private.h"

/* ---- XML ------------------------------------------------------------------------------------ */

struct writer {
  xmlBuffer *buffer;
  xmlTextWriter *xml;
  bool ok;
};

static bool open_writer(struct writer *w) {
  w->buffer = xmlBufferCreate();
  w->xml = w->buffer ? xmlNewTextWriterMemory(w->buffer, 0) : NULL;
  w->ok = w->xml;
  return w->ok;
}

static bool close_writer(struct writer *w, struct buf *out) {
  if (w->xml)
    xmlFreeTextWriter(w->xml); /* flushes */
  if (w->ok)
    buf_add(out, xmlBufferContent(w->buffer), (size_t)xmlBufferLength(w->buffer));
  xmlBufferFree(w->buffer);
  return w->ok && !out->failed;
}

static void start(struct writer *w, const char *name) {
  w->ok = w->ok && xmlTextWriterStartElement(w->xml, BAD_CAST name) >= 0;
}

static void end(struct writer *w) {
  w->ok = w->ok && xmlTextWriterEndElement(w->xml) >= 0;
}

static void put(struct writer *w, const char *name, const char *text) {
  w->ok = w->ok && text && xmlTextWriterWriteElement(w->xml, BAD_CAST name, BAD_CAST text) >= 0;
}

static void put_integer(struct writer *w, const char *name, const json_t *value) {
  char text[24];
  snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
  put(w, name, text);
}

static void put_name(struct writer *w, const char *name, const char *text) {
  char *octal = route53_octal_name(text);
  put(w, name, octal);
  free(octal);
}

/* ---- record sets ---------------------------------------------------------------------------- */

static void put_upper(struct writer *w, const char *name, const char *text, size_t len) {
  char out[8];
  if (len >= sizeof out) {
    w->ok = false;
    return;
  }
  for (size_t i = 0; i < len; i++)
    out[i] = text[i] >= 'a' && text[i] <= 'z' ? (char)(text[i] - 'a' + 'A') : text[i];
  out[len] = '\0';
  put(w, name, out);
}

static void put_place(struct writer *w, const char *atom) {
  const char *code = strchr(atom, ':');
  start(w, "GeoLocation");
  if (!code) {
    put(w, "CountryCode", "*");
  } else if (strncmp(atom, "continent", 9) == 0) {
    put_upper(w, "ContinentCode", code + 1, strlen(code + 1));
  } else {
    const char *dash = strchr(code, '-');
    put_upper(w, "CountryCode", code + 1, dash ? (size_t)(dash - code - 1) : strlen(code + 1));
    if (dash)
      put_upper(w, "SubdivisionCode", dash + 1, strlen(dash + 1));
  }
  end(w);
}

static void put_values(struct writer *w, const json_t *values, size_t *records, size_t *chars) {
  size_t i;
  const json_t *value;
  start(w, "ResourceRecords");
  json_array_foreach(values, i, value) {
    char *octal = route53_octal(json_string_value(value));
    start(w, "ResourceRecord");
    put(w, "Value", octal);
    end(w);
    *records += 1;
    *chars += octal ? strlen(octal) : 0;
    free(octal);
  }
  end(w);
}

/* The elements in the order of the API's schema. */
static void put_set(struct writer *w, const struct provider_object *o, const json_t *ids,
                    const char *alias_zone, size_t *records, size_t *chars) {
  const json_t *b = o->body;
  const char *identifier = o->key + strlen(o->name) + 1 + strlen(o->type);
  const char *key = json_string_value(json_object_get(b, "health"));
  const char *alias = json_string_value(json_object_get(b, "alias"));
  start(w, "ResourceRecordSet");
  put_name(w, "Name", o->name);
  put(w, "Type", o->type);
  if (*identifier == '/')
    put(w, "SetIdentifier", identifier + 1);
  if (json_object_get(b, "weight"))
    put_integer(w, "Weight", json_object_get(b, "weight"));
  if (json_object_get(b, "geo"))
    put_place(w, json_string_value(json_object_get(b, "geo")));
  if (json_object_get(b, "failover"))
    put(w, "Failover", json_string_value(json_object_get(b, "failover")));
  if (json_object_get(b, "values")) {
    put_integer(w, "TTL", json_object_get(b, "ttl"));
    put_values(w, json_object_get(b, "values"), records, chars);
  }
  if (alias) {
    start(w, "AliasTarget");
    put(w, "HostedZoneId", alias_zone);
    put_name(w, "DNSName", alias);
    put(w, "EvaluateTargetHealth", json_is_true(json_object_get(b, "evaluate")) ? "true" : "false");
    end(w);
    *records += 1;
  }
  if (key)
    put(w, "HealthCheckId", json_string_value(json_object_get(json_object_get(ids, key), "id")));
  end(w);
}

/* What a set as it was read counts. */
static void count_raw(const char *xml, size_t *records, size_t *chars) {
  for (const char *at = xml; (at = strstr(at, "<Value>")) != NULL; at += 7) {
    const char *to = strstr(at, "</Value>");
    *records += 1;
    *chars += to ? (size_t)(to - at - 7) : 0;
  }
  *records += strstr(xml, "<AliasTarget>") != NULL;
}

bool route53_write_change(struct buf *out, const char *action, const struct provider_object *object,
                          const json_t *ids, const char *alias_zone, size_t *records,
                          size_t *chars) {
  struct writer w = {0};
  const char *raw = json_string_value(json_object_get(object->raw, "xml"));
  size_t r = 0;
  size_t c = 0;
  if (open_writer(&w)) {
    start(&w, "Change");
    put(&w, "Action", action);
    if (strcmp(action, "DELETE") == 0 && raw) {
      w.ok = w.ok && xmlTextWriterWriteRaw(w.xml, BAD_CAST raw) >= 0;
      count_raw(raw, &r, &c);
    } else {
      put_set(&w, object, ids, alias_zone, &r, &c);
    }
    end(&w);
  }
  unsigned times = strcmp(action, "UPSERT") == 0 ? 2 : 1;
  *records += r * times;
  *chars += c * times;
  return close_writer(&w, out);
}

/* ---- health checks -------------------------------------------------------------------------- */

static void put_optional(struct writer *w, const char *name, const json_t *value) {
  if (json_is_string(value))
    put(w, name, json_string_value(value));
}

static void put_flag(struct writer *w, const char *name, const json_t *value) {
  put(w, name, json_is_true(value) ? "true" : "false");
}

/* The elements in the order of the API's schema. */
static void put_check(struct writer *w, const json_t *b, bool update) {
  put_optional(w, "IPAddress", json_object_get(b, "address"));
  put_integer(w, "Port", json_object_get(b, "port"));
  if (!update)
    put_optional(w, "Type", json_object_get(b, "type"));
  put_optional(w, "ResourcePath", json_object_get(b, "path"));
  put_optional(w, "FullyQualifiedDomainName", json_object_get(b, "host"));
  put_optional(w, "SearchString", json_object_get(b, "search"));
  if (!update)
    put_integer(w, "RequestInterval", json_object_get(b, "interval"));
  put_integer(w, "FailureThreshold", json_object_get(b, "threshold"));
  put_flag(w, "Inverted", json_object_get(b, "inverted"));
  put_flag(w, "Disabled", json_object_get(b, "disabled"));
  if (json_object_get(b, "sni"))
    put_flag(w, "EnableSNI", json_object_get(b, "sni"));
}

bool route53_write_check(struct buf *out, const json_t *body, const char *reference,
                         long long version) {
  struct writer w = {0};
  bool update = version > 0;
  json_t *number = json_integer((json_int_t)version);
  if (open_writer(&w)) {
    start(&w, update ? "UpdateHealthCheckRequest" : "CreateHealthCheckRequest");
    w.ok = w.ok &&
           xmlTextWriterWriteAttribute(w.xml, BAD_CAST "xmlns", BAD_CAST ROUTE53_NAMESPACE) >= 0;
    if (update) {
      put_integer(&w, "HealthCheckVersion", number);
      put_check(&w, body, true);
    } else {
      put(&w, "CallerReference", reference);
      start(&w, "HealthCheckConfig");
      put_check(&w, body, false);
      end(&w);
    }
    end(&w);
  }
  json_decref(number);
  return close_writer(&w, out);
}
