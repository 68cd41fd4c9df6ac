/** Going elsewhere in the page. */
import { useEffect, useRef } from "react";
import { useLocation } from "wouter";

/** Goes somewhere as long as the part that wants to is there: a late answer must not pull anybody away. */
export function useNavigate(): (address: string) => void {
  const [, go] = useLocation();
  const isThere = useRef(true);
  useEffect(() => {
    isThere.current = true;
    return () => {
      isThere.current = false;
    };
  }, []);
  return (address) => {
    if (isThere.current) go(address);
  };
}
