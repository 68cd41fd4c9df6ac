import { AssetTable } from "../assets/AssetTable";
import { TEMPLATES } from "../assets/kinds";
import { COLUMNS } from "./columns";

export default function Templates() {
  return (
    <AssetTable
      kind={TEMPLATES}
      title="Templates"
      about="What runs can begin with. What a user asks wins over what a template says."
      columns={COLUMNS}
      none={{
        title: "No templates yet",
        hint: "Keep settings that people use again and again under a name, such as the variables and volumes of a training, and runs begin with them.",
      }}
    />
  );
}
