/** The configuration of a cluster, including defaults. */
import type { Scope } from "../../api/scopes";
import { Card } from "../../shell/Page";
import { NONE } from "../../table/columns";
import { CONNECTIONS, EXECUTORS, QUEUEING, readCluster, SHARING } from "./clusters";
import classes from "./Organization.module.css";

export function ClusterFacts({ record }: { record: Scope }) {
  const cluster = readCluster(record);
  const types = cluster.gpu_types.map((row) => `${row.key} (${row.value})`).join("; ");
  const facts = [
    ["Executor", labelOf(EXECUTORS, cluster.executor)],
    ...(cluster.executor === "kubernetes" ? kubernetesFacts(record) : []),
    ["GPU resource", cluster.gpu_resource],
    ["GPU sharing", labelOf(SHARING, cluster.gpu_sharing)],
    ["GPU types", types],
    ...([cluster.gpu_sharing, cluster.queueing].includes("kai") ? [["KAI queue", cluster.kai_queue]] : []),
    ["GPU product label", cluster.gpu_product_label],
    ["Python image", cluster.python_image],
  ];
  return (
    <Card title="Configuration" order={3}>
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

/** Settings that only Kubernetes clusters have. */
function kubernetesFacts(record: Scope) {
  const cluster = readCluster(record);
  const { storage_classes, runtime_classes } = record.details as Record<string, string[] | undefined>;
  return [
    ["Connection", labelOf(CONNECTIONS, cluster.connection)],
    ["Namespaces", `${cluster.namespace}${cluster.create_namespaces ? "" : ", created manually"}`],
    ["Server URL", cluster.server_url],
    ["Queueing", labelOf(QUEUEING, cluster.queueing)],
    ...(cluster.queueing === "kueue" ? [["Kueue queue", cluster.kueue_queue]] : []),
    ["Nodes", cluster.autoscaled ? "autoscaled" : "fixed"],
    ["Storage classes", storage_classes?.join(", ") ?? "any"],
    ["Runtime classes", runtime_classes?.join(", ") ?? "any"],
  ];
}

function labelOf(options: { value: string; label: string }[], value: string) {
  return options.find((one) => one.value === value)?.label;
}
