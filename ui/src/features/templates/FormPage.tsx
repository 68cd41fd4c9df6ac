import { useRoute } from "wouter";
import { FormPage } from "../assets/FormPage";
import { TEMPLATES } from "../assets/kinds";

export default function TemplateForm() {
  const [isEdit] = useRoute("/templates/:name/edit");
  const [isCopy] = useRoute("/templates/:name/copy");
  return <FormPage kind={TEMPLATES} purpose={isEdit ? "edit" : isCopy ? "copy" : "create"} />;
}
