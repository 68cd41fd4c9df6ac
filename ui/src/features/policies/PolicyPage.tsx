/** Policy page for the scope in the URL: an editor, or a read-only view for users who may not edit it. */
import { useState } from "react";
import { useMay, useMe } from "../../api/currentUser";
import { useEffectivePolicy } from "../../api/policies";
import { useScopes } from "../../api/scopes";
import { useNames } from "../../shell/addresses";
import { Loading } from "../../shell/Loading";
import { NotFoundPage } from "../../shell/NotFoundPage";
import { ProblemPage } from "../../shell/Problem";
import { Editor } from "./Editor";
import { ReadOnlyPolicy } from "./ReadOnlyPolicy";
import { type EffectivePolicy, type PolicyRecord, usePolicy } from "./requests";

const KINDS = ["cluster", "department", "project"];

export default function PolicyPage() {
  const { kind = "", name = "" } = useNames<"kind" | "name">();
  if (kind === "platform" && name === "platform") return <PolicyLoader key="platform" scope="platform" />;
  if (!KINDS.includes(kind)) return <NotFoundPage />;
  return <PolicyLoader key={`${kind}/${name}`} scope={`${kind}/${name}`} />;
}

function PolicyLoader({ scope }: { scope: string }) {
  const policy = usePolicy(scope);
  const effective = useEffectivePolicy(scope);
  const scopes = useScopes();
  const me = useMe();
  if (policy.data !== undefined && effective.data && scopes.data && me.data) {
    return <LoadedPolicy scope={scope} policy={policy.data} effective={effective.data} />;
  }
  const error = effective.error ?? policy.error ?? scopes.error;
  if (!error) return <Loading />;
  return <ProblemPage error={error} link={{ title: "All policies", href: "/policies" }} />;
}

interface Props {
  scope: string;
  policy: PolicyRecord | null;
  effective: EffectivePolicy;
}

function LoadedPolicy({ scope, policy, effective }: Props) {
  const may = useMay();
  // This state is not updated, so that applying files while someone is editing does not discard the draft.
  const [isManaged, setManaged] = useState(Boolean(policy?.managed_by));
  if (!may("editor", scope)) return <ReadOnlyPolicy scope={scope} policy={policy} effective={effective} />;
  if (isManaged) {
    return (
      <ReadOnlyPolicy
        scope={scope}
        policy={policy}
        effective={effective}
        onEditAnyway={() => setManaged(false)}
      />
    );
  }
  return <Editor scope={scope} original={policy} effective={effective} />;
}
