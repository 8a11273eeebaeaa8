/* The floor under a program's start: it ends. */
int main(void)
{
    return 0;
}
