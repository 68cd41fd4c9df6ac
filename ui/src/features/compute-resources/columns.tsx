/** Columns of the compute resources table. */
import { useOffers } from "../../api/capacities";
import { FitsNow } from "../../offers/FitsNow";
import type { Column } from "../../table/columns";
import { AMOUNTS, DESCRIPTION, HISTORY, nameColumn, SCOPE, workloadsColumn } from "../assets/columns";
import { COMPUTE_RESOURCES } from "../assets/kinds";
import type { Asset } from "../assets/requests";
import { UsageLink } from "../assets/UsageLink";
import { Templates } from "./Templates";

export const COLUMNS: Column<Asset>[] = [
  nameColumn(COMPUTE_RESOURCES, "Compute resource"),
  DESCRIPTION,
  {
    key: "fits_now",
    title: "Fits now",
    width: 125,
    isUnsorted: true,
    align: "right",
    render: (item) => <OfferCell name={item.name} />,
  },
  ...AMOUNTS,
  SCOPE,
  workloadsColumn(COMPUTE_RESOURCES),
  {
    key: "templates",
    title: "Templates",
    width: 105,
    kind: "number",
    align: "right",
    render: (item) => (
      <UsageLink item={item} field="templates">
        <Templates id={item.id} />
      </UsageLink>
    ),
  },
  ...HISTORY,
];

/** All cells share one query. The table does not wait for it. */
function OfferCell({ name }: { name: string }) {
  return <FitsNow offer={useOffers().data?.get(name)} />;
}
