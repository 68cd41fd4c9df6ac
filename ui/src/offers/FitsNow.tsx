/** How many more of a compute resource fit now; why none does, and each cluster, for whoever looks closer. */
import { Text, Tooltip } from "@mantine/core";
import type { Offer, TotalOffer } from "../api/capacities";
import { sentence } from "../format/sentences";
import { NONE } from "../table/columns";

interface Props {
  /** Nothing while it is not known, and of what nobody offers: it may be archived. */
  offer: Offer | TotalOffer | undefined;
}

export function FitsNow({ offer }: Props) {
  if (!offer) return NONE;
  const detail = tellMore(offer);
  const text = (
    <Text span fz="inherit" className="number" c={offer.fits_now ? undefined : "dimmed"}>
      {showOffer(offer)}
    </Text>
  );
  if (!detail) return text;
  return (
    <Tooltip label={detail} multiline maw={360} style={{ whiteSpace: "pre-line" }} events={EVENTS}>
      {/* Reached by the keyboard because what it tells more is nowhere else. */}
      <span tabIndex={0}>{text}</span>
    </Tooltip>
  );
}

const EVENTS = { hover: true, focus: true, touch: true };

/** "12 more", "1,000 or more", "none", "cannot be told". */
export function showOffer({ fits_now, more }: Offer): string {
  if (fits_now === null) return "cannot be told";
  if (fits_now === 0) return "none";
  return more ? `${fits_now.toLocaleString("en")} or more` : `${fits_now.toLocaleString("en")} more`;
}

function tellMore(offer: Offer | TotalOffer): string {
  const clusters = "clusters" in offer ? offer.clusters : [];
  if (clusters.length < 2) return offer.message && sentence(offer.message);
  return clusters
    .map((one) => `${one.cluster}: ${showOffer(one)}${one.message && `: ${one.message}`}`)
    .join("\n");
}
