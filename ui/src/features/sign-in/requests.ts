/** What is asked of the server about signing in and out: the session is a cookie that no script can read. */
import { useQuery } from "@tanstack/react-query";
import { client, unwrap } from "../../api/client";
import { isProblem } from "../../api/problems";
import { markSignedIn } from "../../api/sessions";

/** How one can sign in here. That does not change while the page is open. */
export function useWays() {
  return useQuery({
    queryKey: ["ways"],
    queryFn: () => unwrap(client.GET("/api/v1/sessions")),
    staleTime: Number.POSITIVE_INFINITY,
  });
}

export async function signIn(token: string): Promise<void> {
  await client.POST("/api/v1/sessions", { body: { token } });
  markSignedIn();
}

export async function signOut(): Promise<void> {
  try {
    await client.DELETE("/api/v1/sessions");
  } catch (error) {
    // Who is out already is out.
    if (!isProblem(error, "unauthenticated")) throw error;
  }
  window.location.assign("/sign-in");
}
