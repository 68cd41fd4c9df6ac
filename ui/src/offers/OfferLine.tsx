/** How many more runs of a compute resource fit now, per cluster, on one line. */
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
      {offer.clusters.map((cluster, index) => (
        <span key={cluster.cluster}>
          {index > 0 && "; "}
          <Text span size="sm" fw={550} c="var(--mantine-color-text)" className="number">
            {showOffer(cluster)}
          </Text>{" "}
          on{" "}
          <Anchor component={Link} href={capacityAddress(cluster.cluster)} fz="inherit" underline="always">
            {cluster.cluster}
          </Anchor>
          {cluster.message && `: ${cluster.message}`}
        </span>
      ))}
    </Text>
  );
}
