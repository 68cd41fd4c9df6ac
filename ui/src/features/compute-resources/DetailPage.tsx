import { OfferLine } from "../../offers/OfferLine";
import { DetailPage } from "../assets/DetailPage";
import { COMPUTE_RESOURCES } from "../assets/kinds";
import { Workloads } from "../assets/Workloads";
import { Templates } from "./Templates";

export default function ComputeResourceDetail() {
  return (
    <DetailPage
      kind={COMPUTE_RESOURCES}
      title="Compute resources"
      hasTypes
      about={(item) => <OfferLine name={item.name} />}
      tabs={[
        {
          name: "workloads",
          title: "Workloads",
          render: (item) => <Workloads kind={COMPUTE_RESOURCES} id={item.id} />,
        },
        { name: "templates", title: "Templates", render: (item) => <Templates id={item.id} /> },
      ]}
    />
  );
}
