/** What a cluster can do, said or left at what is usual. */
import type { Place } from "../../api/places";
import { Card } from "../../shell/Page";
import { NONE } from "../../table/columns";
import { EXECUTORS, readCluster, SHARING } from "./clusters";
import classes from "./Organisation.module.css";

export function ClusterFacts({ place }: { place: Place }) {
  const cluster = readCluster(place);
  const types = cluster.gpu_types.map((row) => `${row.key} (${row.value})`).join("; ");
  const facts = [
    ["Executor", EXECUTORS.find((one) => one.value === cluster.executor)?.label],
    ["GPU resource", cluster.gpu_resource],
    ["GPU sharing", SHARING.find((one) => one.value === cluster.gpu_sharing)?.label],
    ["GPU types", types],
    ...(cluster.gpu_sharing === "kai" ? [["KAI queue", cluster.kai_queue]] : []),
    ["GPU product label", cluster.gpu_product_label],
    ["Python image", cluster.python_image],
  ];
  return (
    <Card title="What it can do" order={3}>
      <dl className={classes.facts}>
        {facts.map(([title, value]) => (
          <div key={title} style={{ display: "contents" }}>
            <dt>{title}</dt>
            <dd>{value || NONE}</dd>
          </div>
        ))}
      </dl>
    </Card>
  );
}
