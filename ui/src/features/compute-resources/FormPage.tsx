import { useRoute } from "wouter";
import { FormPage } from "../assets/FormPage";
import { COMPUTE_RESOURCES } from "../assets/kinds";

export default function ComputeResourceForm() {
  const [isEdit] = useRoute("/compute-resources/:name/edit");
  const [isCopy] = useRoute("/compute-resources/:name/copy");
  return (
    <FormPage kind={COMPUTE_RESOURCES} purpose={isEdit ? "edit" : isCopy ? "copy" : "create"} hasTypes />
  );
}
