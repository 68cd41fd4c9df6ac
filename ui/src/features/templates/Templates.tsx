import { AssetTable } from "../assets/AssetTable";
import { TEMPLATES } from "../assets/kinds";
import { COLUMNS } from "./columns";

export default function Templates() {
  return (
    <AssetTable
      kind={TEMPLATES}
      title="Templates"
      about="Starting points for runs. Users can override any value."
      columns={COLUMNS}
      emptyState={{
        title: "No templates yet",
        hint: "Save common settings, such as variables and volumes, for runs to start from.",
      }}
    />
  );
}
