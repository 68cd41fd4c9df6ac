/** How many more of a compute resource fit now, cluster by cluster, in a line. */
import { Anchor, Text } from "@mantine/core";
import { Link } from "wouter";
import { useOffers } from "../api/capacities";
import { capacityAddress } from "../shell/addresses";
import { showOffer } from "./FitsNow";

export function OfferLine({ name }: { name: string }) {
  const offer = useOffers().data?.get(name);
  if (!offer) return null;
  return (
    <Text size="sm" component="div">
      Fits now:{" "}
      {offer.clusters.map((one, at) => (
        <span key={one.cluster}>
          {at > 0 && "; "}
          <Text span size="sm" fw={550} c="var(--mantine-color-text)" className="number">
            {showOffer(one)}
          </Text>{" "}
          on{" "}
          <Anchor component={Link} href={capacityAddress(one.cluster)} fz="inherit" underline="always">
            {one.cluster}
          </Anchor>
          {one.message && `: ${one.message}`}
        </span>
      ))}
    </Text>
  );
}
