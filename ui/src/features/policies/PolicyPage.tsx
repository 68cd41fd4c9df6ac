/** The policy of the scope in the address, for whoever may write it and whoever may only read it. */
import { useState } from "react";
import { useMay, useMe } from "../../api/currentUser";
import { useEffectivePolicy } from "../../api/policies";
import { useScopes } from "../../api/scopes";
import { useNames } from "../../shell/addresses";
import { Loading } from "../../shell/Loading";
import { NotFoundPage } from "../../shell/NotFoundPage";
import { ProblemPage } from "../../shell/Problem";
import { Editor } from "./Editor";
import { Reader } from "./Reader";
import { type EffectivePolicy, type PolicyRecord, usePolicy } from "./requests";

const KINDS = ["cluster", "department", "project"];

export default function PolicyPage() {
  const { kind = "", name = "" } = useNames<"kind" | "name">();
  if (kind === "platform" && name === "platform") return <PolicyOf key="platform" scope="platform" />;
  if (!KINDS.includes(kind)) return <NotFoundPage />;
  return <PolicyOf key={`${kind}/${name}`} scope={`${kind}/${name}`} />;
}

function PolicyOf({ scope }: { scope: string }) {
  const policy = usePolicy(scope);
  const effective = useEffectivePolicy(scope);
  const scopes = useScopes();
  const me = useMe();
  if (policy.data !== undefined && effective.data && scopes.data && me.data) {
    return <Opened scope={scope} policy={policy.data} effective={effective.data} />;
  }
  const error = effective.error ?? policy.error ?? scopes.error;
  if (!error) return <Loading />;
  return <ProblemPage error={error} way={{ title: "All policies", href: "/policies" }} />;
}

interface Props {
  scope: string;
  policy: PolicyRecord | null;
  effective: EffectivePolicy;
}

function Opened({ scope, policy, effective }: Props) {
  const may = useMay();
  // Decided once: whatever happens to the policy meanwhile, nobody's draft is taken away.
  const [isManaged, setManaged] = useState(Boolean(policy?.managed_by));
  if (!may("editor", scope)) return <Reader scope={scope} read={policy} effective={effective} />;
  if (isManaged) {
    return (
      <Reader scope={scope} read={policy} effective={effective} onChangeAnyway={() => setManaged(false)} />
    );
  }
  return <Editor scope={scope} original={policy} effective={effective} />;
}
