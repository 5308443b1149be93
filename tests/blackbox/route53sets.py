# SPDX-License-Identifier: Apache-2.0
"""Resource record sets of Route 53 as its API has them: their XML, and the rules that each one keeps for itself.

Rules of several sets together (batches, policies that do not mix) are in route53sim.py.
"""
import xml.sax.saxutils

NS = "https://route53.amazonaws.com/doc/2013-04-01/"
TYPES = {"SOA", "A", "TXT", "NS", "CNAME", "MX", "NAPTR", "PTR", "SRV", "SPF", "AAAA", "CAA", "DS", "TLSA", "SSHFP", "SVCB",
         "HTTPS"}


class Error(Exception):
    def __init__(self, code, message="", status=400):
        super().__init__(code, message)
        self.code, self.message, self.status = code, message, status


def strip(tree):
    """Removes the namespace, and tells whether it was the right one."""
    for node in tree.iter():
        assert node.tag.startswith("{" + NS + "}"), node.tag
        node.tag = node.tag.split("}")[1]
    return tree


def text(node, path, otherwise=None):
    found = node.find(path)
    return otherwise if found is None else (found.text or "")


def quoted(value):
    return xml.sax.saxutils.escape(str(value))


def escape(name):
    """Names as Route 53 tells them: octal escapes of all but a-z 0-9 - _ ."""
    return "".join(c if c.isalnum() or c in "-_.\\" else f"\\{ord(c):03o}" for c in name.lower())


def canonical_name(name):
    name = name.lower().replace("*", "\\052")
    return name if name.endswith(".") else name + "."


def sort_key(name):
    return name.rstrip(".").split(".")[::-1]


class Set:
    """One resource record set."""
    ORDER = ["Name", "Type", "SetIdentifier", "Weight", "Region", "GeoLocation", "Failover", "MultiValueAnswer", "TTL",
             "ResourceRecords", "AliasTarget", "HealthCheckId"]

    def __init__(self, node):
        tags = [child.tag for child in node]
        if tags != sorted(tags, key=self.ORDER.index):
            raise Error("InvalidInput", f"order of elements: {tags}")
        self.name, self.type = canonical_name(text(node, "Name")), text(node, "Type")
        if self.type not in TYPES:
            raise Error("InvalidInput", f"Value '{self.type}' at 'changeBatch...type' failed to satisfy constraint")
        self.identifier = text(node, "SetIdentifier")
        self.weight = None if text(node, "Weight") is None else int(text(node, "Weight"))
        self.geo = None
        if node.find("GeoLocation") is not None:
            self.geo = {child.tag: child.text for child in node.find("GeoLocation")}
        self.failover, self.region = text(node, "Failover"), text(node, "Region")
        self.ttl = None if text(node, "TTL") is None else int(text(node, "TTL"))
        self.values = [v.text for v in node.findall("ResourceRecords/ResourceRecord/Value")]
        self.alias = None
        if node.find("AliasTarget") is not None:
            self.alias = {child.tag: child.text for child in node.find("AliasTarget")}
            self.alias["DNSName"] = canonical_name(self.alias["DNSName"])
        self.health = text(node, "HealthCheckId")
        self.check()

    @property
    def key(self):
        return (self.name, self.type, self.identifier)

    @property
    def policy(self):
        return ("weighted" if self.weight is not None else "geo" if self.geo else
                "failover" if self.failover else "latency" if self.region else "simple")

    def check(self):
        if len(set(self.values)) < len(self.values):
            raise Error("InvalidChangeBatch", f"Duplicate Resource Record: '{self.values[0]}'")
        policies = sum([self.weight is not None, bool(self.geo), bool(self.failover), bool(self.region)])
        if policies > 1 or (policies == 1) != (self.identifier is not None):
            raise Error("InvalidInput", "a set has one routing policy, and then an identifier")
        if self.identifier is not None and not 1 <= len(self.identifier) <= 128:
            raise Error("InvalidInput", "SetIdentifier")
        if self.alias and (self.ttl is not None or self.values):
            raise Error("InvalidInput", "an alias has no TTL")
        if not self.alias and (self.ttl is None or not self.values):
            raise Error("InvalidInput", "TTL or values are missing")
        if self.weight is not None and not 0 <= self.weight <= 255:
            raise Error("InvalidInput", "Weight")
        if self.type == "CNAME" and not self.alias and len(self.values) != 1:
            raise Error("InvalidInput", "several CNAMEs")
        if self.geo:
            sub = self.geo.get("SubdivisionCode")
            if sub and self.geo.get("CountryCode") != "US":
                raise Error("InvalidInput", "only states of the US")
            if "ContinentCode" in self.geo and len(self.geo) > 1:
                raise Error("InvalidInput", "a continent stands alone")

    def __eq__(self, other):
        return vars(self) == vars(other)

    def xml(self, shuffled=False):
        out = f"<Name>{escape(self.name)}</Name><Type>{self.type}</Type>"
        if self.identifier is not None:
            out += f"<SetIdentifier>{quoted(self.identifier)}</SetIdentifier>"
        if self.weight is not None:
            out += f"<Weight>{self.weight}</Weight>"
        if self.region:
            out += f"<Region>{self.region}</Region>"
        if self.geo:
            out += "<GeoLocation>" + "".join(f"<{k}>{v}</{k}>" for k, v in self.geo.items()) + "</GeoLocation>"
        if self.failover:
            out += f"<Failover>{self.failover}</Failover>"
        if self.ttl is not None:
            values = self.values[::-1] if shuffled else self.values
            out += f"<TTL>{self.ttl}</TTL><ResourceRecords>" + "".join(
                f"<ResourceRecord><Value>{quoted(v)}</Value></ResourceRecord>" for v in values) + "</ResourceRecords>"
        if self.alias:
            out += "<AliasTarget>" + "".join(
                f"<{k}>{escape(v) if k == 'DNSName' else v}</{k}>" for k, v in self.alias.items()) + "</AliasTarget>"
        if self.health:
            out += f"<HealthCheckId>{self.health}</HealthCheckId>"
        return f"<ResourceRecordSet>{out}</ResourceRecordSet>"
