/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The countries of ISO 3166-1 and XK (Kosovo), with the continent that GeoNames assigns to each.
 * A table of codes in order, four letters for each country: its code and its continent.
 */
#include <string.h>

#include "steering/atom.h"

static const char table[] =
    "adeu aeas afas agna aina aleu amas aoaf aqan arsa asoc ateu auoc awna axeu azas "
    "baeu bbna bdas beeu bfaf bgeu bhas biaf bjaf blna bmna bnas bosa bqna brsa bsna btas bvan "
    "bwaf byeu bzna "
    "cana ccas cdaf cfaf cgaf cheu ciaf ckoc clsa cmaf cnas cosa crna cuna cvaf cwna cxoc cyeu "
    "czeu "
    "deeu djaf dkeu dmna dona dzaf "
    "ecsa eeeu egaf ehaf eraf eseu etaf "
    "fieu fjoc fksa fmoc foeu freu "
    "gaaf gbeu gdna geas gfsa ggeu ghaf gieu glna gmaf gnaf gpna gqaf greu gsan gtna guoc gwaf "
    "gysa "
    "hkas hman hnna hreu htna hueu "
    "idas ieeu ilas imeu inas ioas iqas iras iseu iteu "
    "jeeu jmna joas jpas "
    "keaf kgas khas kioc kmaf knna kpas kras kwas kyna kzas "
    "laas lbas lcna lieu lkas lraf lsaf lteu lueu lveu lyaf "
    "maaf mceu mdeu meeu mfna mgaf mhoc mkeu mlaf mmas mnas moas mpoc mqna mraf msna mteu muaf "
    "mvas mwaf mxna myas mzaf "
    "naaf ncoc neaf nfoc ngaf nina nleu noeu npas nroc nuoc nzoc "
    "omas "
    "pana pesa pfoc pgoc phas pkas pleu pmna pnoc prna psas pteu pwoc pysa "
    "qaas "
    "reaf roeu rseu rueu rwaf "
    "saas sboc scaf sdaf seeu sgas shaf sieu sjeu skeu slaf smeu snaf soaf srsa ssaf staf svna "
    "sxna syas szaf "
    "tcna tdaf tfan tgaf thas tjas tkoc tloc tmas tnaf tooc tras ttna tvoc twas tzaf "
    "uaeu ugaf umoc usna uysa uzas "
    "vaeu vcna vesa vgna vina vnas vuoc "
    "wfoc wsoc "
    "xkeu "
    "yeas ytaf "
    "zaaf zmaf zwaf ";

enum { STEP = 5, COUNT = (sizeof table - 1) / STEP };

const char *steer_country_continent(const char *country) {
  static const char *const continents[] = {"af", "an", "as", "eu", "na", "oc", "sa"};
  if (strlen(country) != 2)
    return NULL;
  size_t low = 0, high = COUNT;
  while (low < high) {
    size_t middle = (low + high) / 2;
    const char *row = table + middle * STEP;
    int order = memcmp(country, row, 2);
    if (order == 0) {
      for (size_t i = 0; i < sizeof continents / sizeof *continents; i++)
        if (memcmp(continents[i], row + 2, 2) == 0)
          return continents[i];
      return NULL;
    }
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return NULL;
}
