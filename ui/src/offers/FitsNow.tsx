/** How many more runs of a compute resource fit now. A tooltip shows the number or the reason for each cluster. */
import { Text, Tooltip } from "@mantine/core";
import type { Offer, TotalOffer } from "../api/capacities";
import { sentence } from "../format/sentences";
import { NONE } from "../table/columns";

interface Props {
  /** Undefined while loading, and for archived compute resources. */
  offer: Offer | TotalOffer | undefined;
}

export function FitsNow({ offer }: Props) {
  if (!offer) return NONE;
  const detail = describeOffer(offer);
  const text = (
    <Text span fz="inherit" className="number" c={offer.fits_now ? undefined : "dimmed"}>
      {showOffer(offer)}
    </Text>
  );
  if (!detail) return text;
  return (
    <Tooltip label={detail} multiline maw={360} style={{ whiteSpace: "pre-line" }} events={EVENTS}>
      {/* Focusable, because only the tooltip shows the details. */}
      <span tabIndex={0}>{text}</span>
    </Tooltip>
  );
}

const EVENTS = { hover: true, focus: true, touch: true };

/** "12 more", "1,000 or more", "none" or "unknown". */
export function showOffer({ fits_now, more }: Offer): string {
  if (fits_now === null) return "unknown";
  if (fits_now === 0) return "none";
  return more ? `${fits_now.toLocaleString("en")} or more` : `${fits_now.toLocaleString("en")} more`;
}

function describeOffer(offer: Offer | TotalOffer): string {
  const clusters = "clusters" in offer ? offer.clusters : [];
  if (clusters.length < 2) return offer.message && sentence(offer.message);
  return clusters
    .map((cluster) => `${cluster.cluster}: ${showOffer(cluster)}${cluster.message && `: ${cluster.message}`}`)
    .join("\n");
}
