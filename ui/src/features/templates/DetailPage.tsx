import { DetailPage } from "../assets/DetailPage";
import { TEMPLATES } from "../assets/kinds";
import { Workloads } from "../assets/Workloads";

export default function TemplateDetail() {
  return (
    <DetailPage
      kind={TEMPLATES}
      title="Templates"
      tabs={[
        {
          name: "workloads",
          title: "Workloads",
          render: (item) => <Workloads kind={TEMPLATES} id={item.id} />,
        },
      ]}
    />
  );
}
